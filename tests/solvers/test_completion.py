"""Second moments of rows that were never seen whole."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import MaskedMoments
from gramian.solvers import complete


def two_entries(n: int, d: int = 12, rank: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of low rank, a mask of two entries in each, and their true second moment."""
    g = torch.Generator().manual_seed(seed)
    factor = torch.randn(d, rank, generator=g, dtype=torch.float64)
    rows = torch.randn(n, rank, generator=g, dtype=torch.float64) @ factor.T
    seen = torch.rand(n, d, generator=g).argsort(1)[:, :2]
    mask = torch.zeros(n, d, dtype=torch.bool).scatter(1, seen, True)
    return rows, mask, factor @ factor.T


def error(found: Tensor, truth: Tensor) -> float:
    return float((found - truth).norm() / truth.norm())


def test_two_entries_a_row_are_enough() -> None:
    before, after = [], []
    for n in (5_000, 20_000, 80_000):
        rows, mask, truth = two_entries(n)
        masked = MaskedMoments.from_rows(rows, mask)
        result = complete(masked, 3, centred=False)
        before.append(error(masked.second(centred=False), truth))
        after.append(error(result.second, truth))
        assert result.unseen == 0
        assert not result.notes
    assert before[1] == pytest.approx(0.11, abs=0.03)
    assert all(a < 0.8 * b for a, b in zip(after, before, strict=True))
    # as n^(-1/2): halved with four times the rows
    for found in (before, after):
        assert found[2] == pytest.approx(found[0] / 4, rel=0.5)


def test_pairs_never_seen_together_follow_from_the_rank() -> None:
    """Exact products of some pairs; the others are hidden."""
    d, rank = 20, 3
    factor = torch.randn(d, rank, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    truth = factor @ factor.T
    g = torch.Generator().manual_seed(2)
    pairs = (torch.rand(d, d, generator=g) < 0.7).double().triu() * 50
    pairs = pairs + pairs.T
    pairs.fill_diagonal_(80.0)
    zero = torch.zeros(d, dtype=torch.float64)
    masked = MaskedMoments(80, zero, pairs, torch.zeros(d, d).double(), truth * pairs)
    result = complete(masked, rank)
    assert 0.2 < result.unseen < 0.4
    assert error(result.second, truth) < 1e-4
    assert result.misfit < 1e-5
    hidden = pairs == 0
    assert error(result.second[hidden], truth[hidden]) < 1e-4


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("rank", [2, 6])
def test_with_nothing_missing_the_leading_eigenvectors(centred: bool, rank: int) -> None:
    rows = two_entries(300, d=6, rank=6)[0] + 2.0
    x = rows - rows.mean(0) if centred else rows
    values, vectors = torch.linalg.eigh(x.T @ x / 300)
    best = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T
    result = complete(MaskedMoments.from_rows(rows), rank, centred=centred)
    torch.testing.assert_close(result.second, best, rtol=0, atol=1e-9 * float(values[-1]))
    assert float(torch.linalg.eigvalsh(result.second)[0]) > -1e-12
    torch.testing.assert_close(result.moments.scatter / 300, best, rtol=0, atol=1e-8)
    mean = rows.mean(0) if centred else torch.zeros(6).double()
    torch.testing.assert_close(result.moments.mean, mean, rtol=1e-12, atol=1e-12)


def test_noise_in_every_entry_stays_out_with_the_diagonal() -> None:
    rows, _, truth = two_entries(60_000, d=15, rank=2, seed=3)
    g = torch.Generator().manual_seed(4)
    noisy = rows + 1.5 * torch.randn(rows.shape, generator=g, dtype=torch.float64)
    mask = torch.rand(rows.shape, generator=g) < 0.5
    masked = MaskedMoments.from_rows(noisy, mask)
    with_it, without = (
        complete(masked, 2, centred=False, diagonal=diagonal) for diagonal in (True, False)
    )
    assert error(without.second, truth) < 0.05
    assert error(without.second, truth) < error(with_it.second, truth) / 2


def test_a_rank_above_the_true_one_and_few_partners() -> None:
    rows, mask, truth = two_entries(20_000)
    result = complete(MaskedMoments.from_rows(rows, mask), 5, centred=False)
    assert error(result.second, truth) < 0.12
    d = 5
    chain = torch.zeros(400, d, dtype=torch.bool)
    for i in range(400):
        chain[i, [i % (d - 1), i % (d - 1) + 1]] = True
    thin = MaskedMoments.from_rows(torch.ones(400, d) + rows[:400, :d], chain)
    assert "2 coordinates were seen together with fewer than 2 others" in complete(thin, 2).notes[0]
    assert "stopped at its last step" in complete(thin, 2, steps=1).notes[-1]


def test_refusals() -> None:
    rows, mask, _ = two_entries(200)
    masked = MaskedMoments.from_rows(rows, mask)
    with pytest.raises(GramianError, match="rank is 13 of 12 coordinates"):
        complete(masked, 13)
    with pytest.raises(GramianError, match="1 coordinates were never seen, the first is 4"):
        complete(MaskedMoments.from_rows(rows, mask & (torch.arange(12) != 4)), 2)
    halves = torch.zeros(200, 12, dtype=torch.bool)
    halves[:100, :6] = True
    halves[100:, 6:] = True
    with pytest.raises(GramianError, match="2 groups never seen together, for example 0 and 6"):
        complete(MaskedMoments.from_rows(rows, halves), 2)
    with pytest.raises(GramianError, match="does not vary"):
        complete(MaskedMoments.from_rows(torch.ones(5, 3)), 1)
