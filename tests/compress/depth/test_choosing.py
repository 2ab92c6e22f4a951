"""The cheapest cuts, against trying them all."""

from __future__ import annotations

import itertools
import random

import pytest

from gramian.compress.depth.choosing import cheapest
from gramian.compress.depth.cut import Cut, cuts_of
from gramian.errors import GramianError


def every(depth, remove, cuts, allowed):
    """All choices, by brute force."""
    for layers in itertools.combinations(range(depth), remove):
        runs = cuts_of(layers, depth)
        if len(runs) <= cuts and all(map(allowed, runs)):
            yield runs


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("remove,cuts", [(1, 1), (3, 1), (3, 2), (4, 4), (6, 3)])
def test_least_of_all(seed, remove, cuts):
    draw = random.Random(seed)
    depth = 8
    prices = {Cut(s, n): draw.random() * n for s in range(depth) for n in range(1, depth - s + 1)}
    prohibited = {cut for cut in prices if draw.random() < 0.2}
    allowed = lambda cut: cut not in prohibited  # noqa: E731
    choices = list(every(depth, remove, cuts, allowed))
    if not choices:
        with pytest.raises(GramianError, match="no choice"):
            cheapest(depth, remove, cuts, prices.__getitem__, allowed)
        return
    found = cheapest(depth, remove, cuts, prices.__getitem__, allowed)
    total = sum(prices[cut] for cut in found)
    assert total == pytest.approx(min(sum(prices[c] for c in runs) for runs in choices))
    assert found in choices


def test_nothing_to_remove():
    assert cheapest(5, 0, 1, lambda cut: 1.0, lambda cut: True) == ()


@pytest.mark.parametrize("remove,cuts,said", [(5, 1, "0 to 4"), (-1, 1, "0 to 4"), (1, 0, "cuts")])
def test_refused(remove, cuts, said):
    with pytest.raises(GramianError, match=said):
        cheapest(5, remove, cuts, lambda cut: 1.0, lambda cut: True)


def test_runs():
    assert cuts_of((4, 1, 2, 6), 8) == (Cut(1, 2), Cut(4, 1), Cut(6, 1))
    assert str(Cut(1, 2)) == "blocks 1 to 2"
    for layers, said in (((1, 1), "different"), ((8,), "0 to 7"), (tuple(range(8)), "all 8")):
        with pytest.raises(GramianError, match=said):
            cuts_of(layers, 8)
