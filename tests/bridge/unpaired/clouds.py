"""Clouds of rows for matching without pairs."""

from __future__ import annotations

import numpy as np


def clustered(rows: int, width: int, *, clusters: int = 30, seed: int = 0) -> np.ndarray:
    """Rows of clusters of unequal size, each with axes of its own: nothing maps it to itself."""
    draw = np.random.default_rng(seed)
    centres = draw.standard_normal((clusters, width)) * np.linspace(2, 0.5, width)
    axes = draw.standard_normal((clusters, width, width)) * (0.6 / width**0.5)
    member = draw.choice(clusters, rows, p=draw.dirichlet(np.ones(clusters)))
    noise = draw.standard_normal((rows, width))
    return centres[member] + np.einsum("nd,nde->ne", noise, axes[member])


def turn(width: int, other: int | None = None, *, seed: int = 9) -> np.ndarray:
    """Orthonormal rows or columns, (width, other)."""
    draw = np.random.default_rng(seed)
    other = other or width
    tall = np.linalg.qr(draw.standard_normal((max(width, other), min(width, other))))[0]
    return tall if width >= other else tall.T


def top_1(mapped: np.ndarray, partners: np.ndarray) -> float:
    """The share of rows whose nearest partner by cosine is their own."""
    mapped, partners = (r / np.linalg.norm(r, axis=1, keepdims=True) for r in (mapped, partners))
    return float(((mapped @ partners.T).argmax(1) == np.arange(len(mapped))).mean())
