"""The cosine objective: a planted turn is found, and what it was is never made worse."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.moments import Quadratic
from gramian.solvers import BranchRows, cosine_map


def planted(n, d=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    branch, rest = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    turn = 0.3 * torch.randn(d, d, generator=torch.Generator().manual_seed(7)).double()
    length = 0.1 + 10 * torch.rand(n, 1, generator=generator, dtype=torch.float64)
    stream = rest + branch
    return BranchRows(branch, stream, length * (stream + branch @ turn.T)), turn


def test_a_planted_map_whatever_the_lengths():
    rows, turn = planted(4000)
    judge, _ = planted(800, seed=1)
    found = cosine_map(rows, judge, rate=1e-2, epochs=150)
    assert found.loss < 1e-3 * found.loss_identity
    torch.testing.assert_close(found.step, turn, rtol=0, atol=0.03)


def test_nothing_to_gain_leaves_the_identity():
    rows, _ = planted(200)
    still = BranchRows(rows.branch, rows.stream, 3 * rows.stream)
    found = cosine_map(still, still)
    assert float(found.step.abs().max()) == 0.0
    assert found.epochs == 0


def test_a_quadratic_beside_holds_it_back():
    rows, _ = planted(2000)
    stiff = Quadratic.prior(torch.zeros(8, 8, dtype=torch.float64), 1e3)
    held = cosine_map(rows, rows, beside=stiff, rate=1e-2)
    free = cosine_map(rows, rows, rate=1e-2)
    assert float(held.step.norm()) < 0.1 * float(free.step.norm())


def test_refused():
    rows, _ = planted(20)
    with pytest.raises(GramianError, match="one shape"):
        cosine_map(rows, BranchRows(rows.branch[:3], rows.stream, rows.target))
