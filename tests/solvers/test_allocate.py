"""Allocation: against every other choice on small cases, and the rules of the papers."""

from __future__ import annotations

import itertools

import pytest
import torch

from gramian.errors import GramianError
from gramian.solvers.allocate import Curve, cost, energy, greedy, threshold, uniform

SHAPES = ((6, 8), (4, 8), (9, 5))


def curve(m, n, seed, weight=1.0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(min(m, n), generator=generator, dtype=torch.float64) ** 3
    return Curve(values.sort(descending=True).values, m, n, weight)


def curves(seed=0, shapes=SHAPES):
    return [curve(m, n, seed + i, 1.0 + i) for i, (m, n) in enumerate(shapes)]


def lost(all_curves, ranks):
    return sum(c.lost(r) for c, r in zip(all_curves, ranks, strict=True))


def best(all_curves, budget):
    """The least loss of all choices that cost no more."""
    choices = [[*range(1, c.most + 1), None] for c in all_curves]
    return min(
        lost(all_curves, ranks)
        for ranks in itertools.product(*choices)
        if cost(all_curves, ranks) <= budget
    )


def at_price(curve, price):
    """What one matrix becomes where a parameter costs so much of the loss."""
    choices = [*range(1, curve.most + 1), None]
    return min(choices, key=lambda r: curve.lost(r) + price * curve.cost(r))


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_the_best_of_all_choices(seed):
    """At every budget that one price of a parameter leads to, against all choices."""
    found = curves(seed)
    whole = sum(c.whole for c in found)
    for price in (1e-3, 3e-3, 0.01, 0.02, 0.03, 0.05, 0.1):
        budget = cost(found, [at_price(c, price) for c in found])
        ranks = greedy(found, budget / whole)
        assert cost(found, ranks) <= budget
        assert lost(found, ranks) == pytest.approx(best(found, budget), rel=1e-12, abs=1e-15)
    assert greedy(found, 1.0) == (None, None, None)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_exact_direction_by_direction(seed):
    """Steep spectra of one shape, where no matrix is worth keeping whole."""
    found = [curve(20, 20, seed * 10 + i) for i in range(3)]
    fall = 0.1 ** torch.arange(20, dtype=torch.float64)
    found = [Curve(c.values * fall, 20, 20) for c in found]
    for total in (5, 9, 14):
        ranks = greedy(found, total * 40 / 1200)
        assert sum(ranks) == total
        assert lost(found, ranks) == pytest.approx(best(found, total * 40), rel=1e-9)


def test_greedy_keeps_a_flat_matrix_whole():
    """A spectrum that no rank serves: one piece costs less than what two factors would."""
    flat = Curve(torch.ones(8, dtype=torch.float64), 8, 8)
    steep = Curve(torch.tensor([1.0] + 7 * [1e-6], dtype=torch.float64), 8, 8)
    assert greedy([flat, steep], 0.7) == (None, 1)


@pytest.mark.parametrize("allocate", [uniform, greedy, energy, threshold])
@pytest.mark.parametrize("keep", [0.4, 0.6, 0.8, 0.9])
def test_no_pair_at_or_above_break_even_and_no_more_than_asked(allocate, keep):
    found = curves(3, ((192, 576), (576, 576), (40, 300), (64, 64)))
    multiple = 16 if allocate is energy else 1
    if allocate is energy and keep < 0.9:
        multiple = 4
    ranks = allocate(found, keep=keep, multiple=multiple)
    assert cost(found, ranks) <= keep * sum(c.whole for c in found)
    for c, rank in zip(found, ranks, strict=True):
        assert rank is None or (rank >= 1 and c.cost(rank) < c.whole and rank % multiple == 0)


def test_shapes_of_grouped_attention():
    """Keys and values of 192 outputs: two factors are smaller below rank 144."""
    keys = curve(192, 576, 0)
    assert keys.most == 143
    assert keys.cost(144) == keys.whole
    assert uniform([keys], 0.9) == (129,)
    assert uniform([keys], 0.8) == (115,)
    assert uniform([keys, curve(576, 576, 1), curve(1536, 576, 2)], 0.6) == (86, 172, 251)
    assert uniform([keys], 1.0) == (None,)


def test_more_to_keep_never_loses_more():
    found = curves(4, ((30, 40), (20, 40), (50, 30)))
    for allocate in (uniform, greedy, energy, threshold):
        losses = [
            lost(found, allocate(found, keep=keep, multiple=1))
            for keep in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
        ]
        assert losses == sorted(losses, reverse=True)
        assert lost(found, greedy(found, 0.5)) <= lost(found, allocate(found, keep=0.5, multiple=1))


def test_energy_takes_the_least_multiple_that_holds_the_share():
    values = torch.tensor([8.0, 4.0, 2.0, 1.0, 0.5, 0.5] + 94 * [0.0], dtype=torch.float64)
    one = [Curve(values, 100, 100)]
    assert energy(one, 0.75, multiple=1) == (2,)
    assert energy(one, 0.76, multiple=1) == (3,)
    assert energy(one, 0.76, multiple=16) == (16,)
    assert energy(one, 1.0, multiple=1) == (6,)
    flat = [Curve(torch.ones(100, dtype=torch.float64), 100, 100)]
    assert energy(flat, 0.47, multiple=16) == (48,)
    assert energy(flat, 0.49, multiple=16) == (None,)


def test_threshold_counts_scaled_singular_values():
    values = torch.tensor([16.0, 9.0, 4.0, 1.0] + 96 * [0.0], dtype=torch.float64)
    one = [Curve(values, 100, 100)]
    assert threshold(one, 0.0) == (4,)
    assert threshold(one, 0.3) == (3,)
    assert threshold(one, 0.75) == (1,)
    assert threshold(one, 1.0) == (1,)
    ramp = torch.arange(30, 0, -1, dtype=torch.float64).square()
    assert threshold([Curve(ramp, 1000, 30)], 0.0) == (29,)
    cuts = (0.0, 0.1, 0.2, 0.4, 0.8)
    counts = [threshold([Curve(ramp, 1000, 30)], cut)[0] for cut in cuts]
    assert counts == sorted(counts, reverse=True)
    # What is asked for is met within one direction.
    (rank,) = threshold([Curve(ramp, 1000, 30)], keep=0.5)
    assert abs(rank - 0.5 * 30000 / 1030) < 1


@pytest.mark.parametrize("allocate", [uniform, greedy, energy, threshold])
def test_bad_shares(allocate):
    for keep in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(GramianError, match="expected a share above 0"):
            allocate(curves(), keep=keep, multiple=1)
    with pytest.raises(GramianError, match="multiple is 0"):
        allocate(curves(), keep=0.5, multiple=0)
    with pytest.raises(GramianError, match="less than 1 direction of each of 3"):
        allocate(curves(), keep=0.01, multiple=1)


def test_zero_spectra_are_kept_at_the_least():
    none = Curve(torch.zeros(8, dtype=torch.float64), 8, 8)
    some = curve(8, 8, 1)
    assert energy([none], 0.9, multiple=1) == (1,)
    assert greedy([none, some], 0.5)[0] == 1
