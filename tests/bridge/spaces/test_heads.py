"""The estimator of a compatible head: scikit-learn's contract, and an index moved in parts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from gramian.bridge.retrieval import partner_recall
from gramian.bridge.spaces import CompatibleVectors
from gramian.errors import GramianError
from gramian.moments import JointMoments

RNG = np.random.default_rng(0)


def models(n=1500, new=24, old=16):
    """Two models of the same items, each with something that the other does not tell."""
    hidden = RNG.standard_normal((n, 20))
    x = np.concatenate([hidden, RNG.standard_normal((n, new - 20))], 1)
    y = hidden[:, :old] + 0.2 * RNG.standard_normal((n, old))
    return x @ np.linalg.qr(np.random.default_rng(1).standard_normal((new, new)))[0], y


def test_the_contract_of_scikit_learn():
    check_estimator(CompatibleVectors())


def test_queries_search_the_old_index_as_it_is():
    x, y = models()
    head = CompatibleVectors().fit(x[:1000], y[:1000])
    found = partner_recall(head.queries(x[1000:]), y[1000:])[1]
    swapped = partner_recall(x[1000:, :16], y[1000:])[1]
    assert found > 0.95
    assert swapped < 0.05
    rows = x[1000:].astype(np.float32)
    turned = head.transform(rows)
    assert turned.dtype == np.float32
    np.testing.assert_allclose(turned @ turned.T, rows @ rows.T, atol=1e-4)
    np.testing.assert_allclose(head.inverse_transform(turned), rows, atol=1e-4)
    assert head.score(x[1000:], y[1000:]) > 0.9


def test_old_and_new_rows_in_one_index():
    x, y = models()
    head = CompatibleVectors(extra=4).fit(x[:1000], y[:1000])
    new, old = x[1000:], y[1000:]
    half = np.arange(500) % 2 == 0
    index = np.where(half[:, None], head.transform(new, old), head.transform_old(old))
    queries = head.transform(new)
    assert partner_recall(queries, index)[1] > 0.9
    padded = head.transform_old(old)
    np.testing.assert_allclose(padded @ padded.T, old @ old.T, atol=1e-10)
    expected = head.transform_old(old, expected=True)
    error = np.square(expected - queries).sum()
    assert error < np.square(padded - queries).sum()


def test_moments_are_enough():
    x, y = models()
    rows = CompatibleVectors("procrustes").fit(x, y)
    parts = [JointMoments.from_rows(x[i], y[i]) for i in (slice(700), slice(700, None))]
    moments = CompatibleVectors("procrustes").fit_moments(parts[0] + parts[1])
    np.testing.assert_allclose(rows.transform(x), moments.transform(x), atol=1e-9)
    folds = CompatibleVectors().fit_moments(parts[0], report=parts[1])
    assert set(folds.head_.evidence.errors) == {"train", "report"}


def test_input_that_cannot_be_used():
    x, y = models(100)
    with pytest.raises(GramianError, match="99 of Y"):
        CompatibleVectors().fit(x, y[:99])
    with pytest.raises(GramianError, match="row 3"):
        CompatibleVectors().fit(x, np.where(np.arange(100)[:, None] == 3, np.inf, y))
    with pytest.raises(GramianError, match="extra is 17"):
        CompatibleVectors(extra=17).fit(x, y)
    head = CompatibleVectors().fit(x, y)
    with pytest.raises(GramianError, match="expected 16"):
        head.transform_old(x)
    with pytest.raises(GramianError, match="expected pairs"):
        head.transform(x, y[:5])
