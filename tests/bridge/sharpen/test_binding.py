"""Objects and colours: captions that differ only in what has which attribute."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gramian.bridge.sharpen import bind_attributes
from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.solvers.binding import binding

OBJECTS, COLOURS = 8, 6


def scenes(n=3000, seed=0, noise=0.02):
    """Two objects, two colours; both sides hold the bag, and who has what in a code of its own."""
    rng = np.random.default_rng(seed)
    o = np.stack([rng.permutation(OBJECTS)[:2] for _ in range(n)])
    c = np.stack([rng.permutation(COLOURS)[:2] for _ in range(n)])
    objects, colours = np.eye(OBJECTS)[o], np.eye(COLOURS)[c]
    bag = np.concatenate([objects.sum(1), colours.sum(1)], 1)
    turn = np.linalg.qr(rng.standard_normal((OBJECTS * COLOURS,) * 2))[0]

    def outer(second):
        return np.einsum("nio,nic->noc", objects, second).reshape(n, -1)

    def noisy(*parts):
        rows = np.concatenate(parts, 1)
        return rows + noise * rng.standard_normal(rows.shape)

    v = noisy(bag, outer(colours))
    return v, noisy(bag, outer(colours) @ turn), noisy(bag, outer(colours[:, ::-1]) @ turn)


def test_swaps_are_told_apart_and_retrieval_stays():
    plain = []
    for seed in range(6):
        found = bind_attributes(*scenes(seed=seed))
        assert found.swaps == 1.0
        assert found.recall >= found.recall_before - 0.01
        assert found.chosen.swaps == 1.0
        assert len(found.trials) == 18
        plain.append(found.swaps_before)
    # chance: how far one unknown rotation happens to agree differs from one to the next
    assert 0.35 < np.mean(plain) < 0.65
    assert max(plain) < 0.8


def test_the_closed_form_is_the_formula():
    v, plus, minus = (rows[:300] for rows in scenes())
    sides = [JointMoments.from_rows(v, side) for side in (plus, minus)]
    found = binding(*sides, contrast=0.5, ridge=0.1).weight.numpy()
    n, d = v.shape
    mvv = v.T @ v / n
    mtt = (plus.T @ plus + minus.T @ minus) / (2 * n)
    left = mvv + 0.1 * np.trace(mvv) / d * np.eye(d)
    right = mtt + 0.1 * np.trace(mtt) / d * np.eye(d)
    want = np.linalg.inv(left) @ ((v.T @ plus - 0.5 * v.T @ minus) / n) @ np.linalg.inv(right)
    np.testing.assert_allclose(found, want, atol=1e-9)


def test_moments_of_parts_add():
    v, plus, minus = (rows[:400] for rows in scenes())
    whole, parts = [], []
    for side in (plus, minus):
        whole.append(JointMoments.from_rows(v, side))
        halves = [JointMoments.from_rows(v[i : i + 200], side[i : i + 200]) for i in (0, 200)]
        parts.append(halves[0] + halves[1])
    torch.testing.assert_close(binding(*whole).weight, binding(*parts).weight)


def test_sides_of_two_widths_and_narrow_types():
    v, plus, minus = scenes(800)
    found = bind_attributes(v[:, 2:].astype(np.float16), plus.astype(np.float32), minus)
    assert found.map.shape == (v.shape[1] - 2, plus.shape[1])
    assert found.swaps > 0.95
    assert np.isnan(found.recall_before)


def test_refusals():
    v, plus, minus = (rows[:40] for rows in scenes(60))
    with pytest.raises(GramianError, match="expected one of each"):
        bind_attributes(v, plus[:30], minus)
    with pytest.raises(GramianError, match="at least 20"):
        bind_attributes(v[:19], plus[:19], minus[:19])
    with pytest.raises(GramianError, match="NaN"):
        bind_attributes(v * np.nan, plus, minus)
    with pytest.raises(GramianError, match="no setting keeps retrieval"):
        bind_attributes(v, plus, minus, drop=-2.0)
    sides = [JointMoments.from_rows(v, side) for side in (plus, minus)]
    with pytest.raises(GramianError, match="contrast is 2"):
        binding(*sides, contrast=2.0)
    with pytest.raises(GramianError, match="ridge is 0"):
        binding(*sides, ridge=0.0)
    with pytest.raises(GramianError, match="one of each an image"):
        binding(sides[0], JointMoments.from_rows(v[:9], minus[:9]))
    with pytest.raises(GramianError, match="rows of zeros"):
        binding(*[JointMoments.from_rows(0 * v, side) for side in (plus, minus)])
