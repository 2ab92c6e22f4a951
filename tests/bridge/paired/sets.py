"""Pairs of two views of the same hidden items."""

from __future__ import annotations

import numpy as np


def two_views(n, dx=32, dy=24, noise=0.3, seed=0):
    """Rows (n, dx) and (n, dy), float32, of a hidden factor with a falling spectrum, each with a
    mean and noise of its own."""
    rng = np.random.default_rng(seed)
    width = min(dx, dy)
    hidden = rng.standard_normal((n, width)) * np.exp(-3 * np.arange(width) / width)
    sides = []
    for d in (dx, dy):
        rows = hidden @ rng.standard_normal((width, d)) / np.sqrt(d)
        sides.append(rows + 0.3 + noise * rows.std() * rng.standard_normal(rows.shape))
    return [side.astype(np.float32) for side in sides]


def with_wrong(y, share, seed=1):
    """The targets with the partners of some pairs handed round, and the rows of those."""
    wrong = np.random.default_rng(seed).permutation(len(y))[: int(share * len(y))]
    mixed = y.copy()
    mixed[wrong] = y[np.roll(wrong, 1)]
    return mixed, np.sort(wrong)
