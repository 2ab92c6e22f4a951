"""Directions of keys and values, against decompositions of what they approximate."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.solvers.latent import latent
from gramian.solvers.rotary import rotary, rotary_mean


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def second(d, rank=None, seed=0):
    rows = draw(d if rank is None else rank, d, seed=seed)
    return rows.T @ rows


def root(matrix):
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp_min(0).sqrt()) @ vectors.T


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_it_is_the_whitened_truncation_of_the_weight(rank):
    """Palu's own steps: Cholesky of C, SVD of W L, the factor L undone."""
    weight, c = draw(8, 12), second(12, seed=1)
    chol = torch.linalg.cholesky(c)
    u, s, v = torch.linalg.svd(weight @ chol, full_matrices=False)
    expected = (u[:, :rank] * s[:rank]) @ v[:rank] @ torch.linalg.inv(chol)
    found = latent(weight @ c @ weight.T)
    torch.testing.assert_close(found.projector(rank) @ weight, expected, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(found.values, s.square(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 4])
def test_with_queries_it_is_the_truncation_of_the_logits(rank):
    """The singular values of C_Q^(1/2) C_K^(1/2), and no other map of the rank loses less."""
    queries, keys = second(8, seed=2), second(8, seed=3)
    found = latent(keys, queries)
    singular = torch.linalg.svdvals(root(queries) @ root(keys))
    torch.testing.assert_close(found.values, singular.square(), rtol=1e-6, atol=1e-6)

    def lost(projector):
        gap = torch.eye(8, dtype=torch.float64) - projector
        return float((queries @ gap @ keys @ gap.T).trace())

    assert lost(found.projector(rank)) == pytest.approx(found.lost(rank), rel=1e-6)
    assert lost(latent(keys).projector(rank)) > found.lost(rank)
    for seed in range(20):
        nudged = found.projector(rank) + 1e-3 * draw(8, rank, seed=seed) @ draw(
            rank, 8, seed=seed + 50
        )
        u, s, v = torch.linalg.svd(nudged)
        assert lost((u[:, :rank] * s[:rank]) @ v[:rank]) >= found.lost(rank) * (1 - 1e-9)


@pytest.mark.parametrize("metric", [None, "full", "singular"])
def test_full_rank_is_the_identity(metric):
    given = {None: None, "full": second(8, seed=4), "singular": second(8, 3, seed=4)}[metric]
    found = latent(second(8, seed=5), given)
    eye = torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(found.projector(8), eye, rtol=0, atol=1e-5)
    assert found.lost(8) == 0


def test_rows_of_few_directions_lose_nothing_at_their_rank():
    low = second(10, 4, seed=6)
    found = latent(low)
    assert found.lost(4) < 1e-9 * found.total
    torch.testing.assert_close(found.projector(4) @ low, low, rtol=1e-7, atol=1e-7)


def test_values_descend_and_zero_rows_are_no_error():
    assert bool((latent(second(9, seed=7), second(9, seed=8)).values.diff() <= 0).all())
    nothing = latent(torch.zeros(4, 4, dtype=torch.float64))
    assert nothing.total == 0


def test_what_it_refuses():
    good = second(4)
    for bad in (good.float(), good[:3], torch.full((4, 4), torch.nan, dtype=torch.float64)):
        with pytest.raises(GramianError, match="second"):
            latent(bad)
    with pytest.raises(GramianError, match="metric is"):
        latent(good, second(5))
    with pytest.raises(GramianError, match="nothing reads"):
        latent(good, torch.zeros(4, 4, dtype=torch.float64))


def turned(d, positions):
    """Tables of the usual embedding, and every rotation written out."""
    angle = torch.arange(positions).double()[:, None] / 10.0 ** (torch.arange(0, d, 2).double() / d)
    cos, sin = (torch.cat((f(angle), f(angle)), 1) for f in (torch.cos, torch.sin))
    turn = torch.zeros(d, d, dtype=torch.float64)
    half, i = d // 2, torch.arange(d // 2)
    turn[i, i + half], turn[i + half, i] = -1, 1
    return cos, sin, turn, torch.diag_embed(cos) + sin[:, :, None] * turn


def test_the_average_over_positions_is_that_of_every_rotation():
    cos, sin, turn, every = turned(6, 9)
    torch.testing.assert_close(every @ every.mT, torch.eye(6).double().expand(9, 6, 6))
    c, mean = second(6), draw(6)
    expected = (every @ c @ every.mT).mean(0)
    torch.testing.assert_close(rotary(c, cos, sin, turn), expected)
    torch.testing.assert_close(rotary_mean(mean, cos, sin, turn), (every @ mean).mean(0))
    torch.testing.assert_close(rotary(c, cos, -sin, turn), (every.mT @ c @ every).mean(0))
    with pytest.raises(GramianError, match="tables"):
        rotary(c, cos[:, :4], sin, turn)
