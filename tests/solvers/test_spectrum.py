"""One eigendecomposition and what is read from it."""

from __future__ import annotations

import math

import pytest
import torch

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.solvers import Spectrum
from gramian.solvers.spectrum import LARGEST, eigh, entropy_rank


def test_eigh_leaves_its_input_alone() -> None:
    a = torch.randn(20, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    a = a + a.T
    before = a.clone()
    values, vectors = eigh(a)
    assert torch.equal(a, before)
    assert float((vectors * values @ vectors.T - a).abs().max()) < 1e-12
    assert bool((values.diff() >= 0).all())
    with pytest.raises(GramianError, match="order 8193, expected at most 8192"):
        eigh(torch.empty(LARGEST + 1, 0))


def test_median_ignores_one_sink_and_rounding() -> None:
    scatter = torch.diag(torch.tensor([0.0, 1.0, 2.0, 3.0, 1e9], dtype=torch.float64))
    moments = Moments(10.0, 10.0, torch.zeros(5, dtype=torch.float64), scatter)
    spectrum = Spectrum.of(moments)
    assert (spectrum.rank, spectrum.median, spectrum.condition) == (4, 2.5, math.inf)
    assert spectrum.inverse(0.0).tolist() == [0.0, 1.0, 0.5, 1 / 3, 1e-9]
    assert spectrum.inverse(1.0).tolist() == [1.0, 0.5, 1 / 3, 0.25, 1 / (1e9 + 1)]


def test_no_variance_at_all() -> None:
    moments = Moments.from_rows(torch.ones(5, 3))
    spectrum = Spectrum.of(moments)
    assert (spectrum.rank, spectrum.median) == (0, 1.0)
    assert spectrum.inverse(0.0).tolist() == [0.0, 0.0, 0.0]
    assert entropy_rank(spectrum.values) == 0.0
