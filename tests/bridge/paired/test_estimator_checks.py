"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.bridge.paired import METHODS, Bridge


@parametrize_with_checks([Bridge(method) for method in ("auto", *METHODS)])
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)
