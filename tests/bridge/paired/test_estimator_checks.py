"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.bridge.paired import METHODS, Bridge


def bridge(method):
    return Bridge(method, target_moments="full" if method == "cca" else "diagonal")


@parametrize_with_checks([bridge(method) for method in ("auto", *METHODS)])
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)
