"""One model or two, from moments alone."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge.drift import IndexShards
from gramian.bridge.swapped import mixed, shared_directions, stretches_of, swapped
from gramian.bridge.vectors import open_vectors
from gramian.errors import GramianError
from gramian.moments import Moments

D = 24
DRAW = np.random.default_rng(0)
MIX = DRAW.standard_normal((D, D)) * np.linspace(0.2, 2, D)
TURN = np.linalg.qr(DRAW.standard_normal((D, D)))[0]
OTHER = DRAW.standard_normal((D, D)) * np.linspace(2, 0.2, D)


def rows(n: int, seed: int, mix=MIX, shift: float = 0.0):
    draw = np.random.default_rng(seed)
    return (draw.standard_normal((n, D)) @ mix + shift).astype(np.float32)


def shards(x):
    found = IndexShards()
    found.update([f"d{i}" for i in range(len(x))], x)
    return found.full()


def test_verdicts():
    one = shards(rows(6000, 1))
    assert swapped(one, shards(rows(5000, 2))).verdict == "same"
    domain = rows(5000, 3, MIX @ np.diag(np.linspace(0.5, 1.5, D)), 0.7)
    found = swapped(one, shards(domain))
    assert found.verdict == "shifted"
    assert found.shared > 0.3
    found = swapped(one, shards(rows(5000, 4) @ TURN.astype(np.float32)))
    assert found.verdict == "swapped"
    assert abs(found.shared) < 0.24


def test_a_rotated_copy_shares_nothing_in_wide_spaces():
    draw = np.random.default_rng(1)
    d = 128
    mix = draw.standard_normal((d, d)) * np.linspace(0.1, 2, d)
    turn = np.linalg.qr(draw.standard_normal((d, d)))[0]
    x = draw.standard_normal((4000, d)) @ mix
    y = draw.standard_normal((4000, d)) @ mix @ turn
    found = swapped(shards(x.astype(np.float32)), shards(y.astype(np.float32)))
    assert found.verdict == "swapped"
    assert found.drift.ratio > 2


def test_few_rows_do_not_convict():
    one = shards(rows(6000, 1))
    found = swapped(one, shards(rows(100, 4, OTHER) + 5.0))
    assert found.verdict == "cannot tell"
    assert "too few" in found.reason or "hardly" in found.reason


def test_shared_directions():
    x = Moments.from_rows(rows(5000, 1))
    assert shared_directions(x, x) == pytest.approx(1.0)
    turned = [
        shared_directions(
            x,
            Moments.from_rows(
                rows(5000, 1) @ np.linalg.qr(np.random.default_rng(seed).standard_normal((D, D)))[0]
            ),
        )
        for seed in range(60)
    ]
    assert abs(np.mean(turned)) < 3 * np.std(turned) / 60**0.5
    assert np.std(turned) == pytest.approx(2**0.5 / D, rel=0.3)
    with pytest.raises(GramianError, match="width 24 and 3"):
        shared_directions(x, Moments.from_rows(np.eye(3)))
    with pytest.raises(GramianError, match="vary alike"):
        shared_directions(x, Moments.from_rows(np.ones((5, D))))


def test_a_half_embedded_anew_is_found(tmp_path):
    draw = np.random.default_rng(3)
    d = 64
    mix = draw.standard_normal((d, d)) * np.linspace(0.1, 2, d)
    turn = np.linalg.qr(draw.standard_normal((d, d)))[0]
    x = draw.standard_normal((8000, d)) @ mix
    np.save(tmp_path / "clean.npy", x.astype(np.float32))
    assert mixed(stretches_of(open_vectors(str(tmp_path / "clean.npy")))).verdict == "same"
    x[5000:] = x[5000:] @ turn
    np.save(tmp_path / "half.npy", x.astype(np.float32))
    found = mixed(stretches_of(open_vectors(str(tmp_path / "half.npy"))))
    assert found.verdict == "swapped"
    assert found.at == 5000
    with pytest.raises(GramianError, match="at least 6"):
        mixed(stretches_of(open_vectors(str(tmp_path / "half.npy")), 4))


def test_stretches_are_those_of_the_rows(tmp_path):
    x = rows(1003, 1)
    np.save(tmp_path / "x.npy", x)
    found = stretches_of(open_vectors(str(tmp_path / "x.npy")), 10)
    assert sum(part.count for part in found) == 1003
    np.testing.assert_allclose(found[2].mean, x[202:303].mean(0), atol=1e-6)
