"""Average cosines against all pairs, and rankings of pairs in known coordinates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import average_cosine, cosine_stability, unit_rows
from gramian.measures.cosine import _pairs
from gramian.moments import Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X = normal(80, 5) * torch.tensor([4.0, 1, 1, 0.5, 0.2]) + torch.tensor([3.0, 0, 0, 1, 0])


def test_average_over_all_pairs_from_rows_and_from_unit_moments() -> None:
    cosines = cosine_similarity(X.numpy())
    expected = cosines[~np.eye(80, dtype=bool)].mean()
    assert average_cosine(X) == pytest.approx(expected, rel=1e-12)
    units = unit_rows(X)
    parts = [Moments.from_rows(units[:30]), Moments.from_rows(units[30:])]
    assert average_cosine(parts[0] + parts[1]) == pytest.approx(expected, rel=1e-12)
    assert average_cosine(Moments.from_rows(units, order="diagonal")) == pytest.approx(expected)


def test_zero_rows_and_extreme_lengths() -> None:
    wild = X * torch.logspace(-200, 150, 80, dtype=torch.float64)[:, None]
    assert average_cosine(torch.cat([wild, torch.zeros(3, 5)])) == pytest.approx(
        average_cosine(X), rel=1e-12
    )
    half = X.half()
    assert average_cosine(half) == pytest.approx(average_cosine(half.double()), rel=1e-14)
    assert average_cosine(torch.ones(4, 3)) == pytest.approx(1.0, rel=1e-12)
    assert average_cosine(torch.tensor([[1.0, 0], [-2.0, 0]])) == pytest.approx(-1.0, rel=1e-12)


def test_average_cosine_refusals() -> None:
    with pytest.raises(GramianError, match=r"unit_rows\(x\).*mean_share"):
        average_cosine(Moments.from_rows(X))
    with pytest.raises(GramianError, match="weighted"):
        average_cosine(Moments.from_rows(unit_rows(X), torch.rand(80)))
    with pytest.raises(GramianError, match="at least 2"):
        average_cosine(torch.tensor([[1.0, 2.0], [0.0, 0.0]]))
    with pytest.raises(GramianError, match="NaN"):
        average_cosine(torch.tensor([[1.0, float("nan")]] * 2))


def test_stability_is_spearman_of_cosines_in_three_coordinates() -> None:
    found = cosine_stability(X)
    white = PCA(whiten=True, svd_solver="full").fit_transform(X.numpy())
    upper = np.triu_indices(80, 1)
    spaces = [X.numpy(), (X - X.mean(0)).numpy(), white]
    raw, centred, whitened = (cosine_similarity(space)[upper] for space in spaces)
    assert found.raw_centred == pytest.approx(spearmanr(raw, centred).statistic, abs=1e-10)
    assert found.raw_whitened == pytest.approx(spearmanr(raw, whitened).statistic, abs=1e-10)
    assert found.centred_whitened == pytest.approx(spearmanr(centred, whitened).statistic, abs=1e-9)
    assert (found.pairs, found.rank) == (80 * 79 // 2, 5)


def test_round_rows_are_stable_and_rescaled_factors_are_not() -> None:
    x = normal(2000, 8)
    stable = cosine_stability(x, pairs=20_000)
    assert min(stable.raw_centred, stable.raw_whitened, stable.centred_whitened) > 0.98
    rescaled = cosine_stability(x * torch.logspace(-2, 2, 8), pairs=20_000)
    assert rescaled.raw_whitened < 0.6
    assert rescaled.pairs == 20_000
    assert rescaled == cosine_stability(x * torch.logspace(-2, 2, 8), pairs=20_000)


def test_few_rows_need_other_moments_or_a_ridge() -> None:
    few = normal(6, 20)
    with pytest.raises(GramianError, match="equally far apart"):
        cosine_stability(few)
    assert cosine_stability(few, ridge=0.1).rank == 5
    assert cosine_stability(few, Moments.from_rows(normal(400, 20, seed=1))).rank == 20
    with pytest.raises(GramianError, match="full moments of them"):
        cosine_stability(few, Moments.from_rows(normal(40, 3)))
    with pytest.raises(GramianError, match="at least 3"):
        cosine_stability(few[:2], Moments.from_rows(normal(400, 20, seed=1)))


def test_drawn_pairs_are_different_and_in_order() -> None:
    i, j = _pairs(300, 2000, 0)
    assert len(set(zip(i.tolist(), j.tolist(), strict=True))) == 2000
    assert bool((i < j).all())
    assert int(i.min()) >= 0
    assert int(j.max()) < 300
    every = torch.stack(_pairs(7, 21, 0))
    assert every.T.tolist() == [[a, b] for a in range(7) for b in range(a + 1, 7)]
