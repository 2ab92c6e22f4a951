"""Moments sets out of rows, without a network."""

from __future__ import annotations

import hashlib
from itertools import combinations
from pathlib import Path

import torch
from torch import Tensor

from gramian.moments import (
    FOLDS,
    JointMoments,
    Moments,
    MomentSet,
    MomentSetWriter,
    Pair,
    Recipe,
)

RECIPE = Recipe(
    model="small",
    weights="ab" * 32,
    tensors={"embed": "00" * 8},
    tokenizer="cd" * 32,
    template="none",
    length=32,
    bos=False,
)
CUTS = (0.5, 0.8)
"""Where rows are cut into train, select and report."""


def by_fold(rows: Tensor) -> dict[str, Tensor]:
    cuts = [0, *(int(cut * len(rows)) for cut in CUTS), len(rows)]
    return {fold: rows[cuts[i] : cuts[i + 1]] for i, fold in enumerate(FOLDS)}


def set_of(
    rows: dict[str, Tensor],
    pairs: list[tuple[str, str]] | None = None,
    *,
    sinks: dict[str, Tensor] | None = None,
    recipe: Recipe = RECIPE,
    path: Path | None = None,
    storage: str = "float64",
    seed: int = 0,
    documents: int = 20,
) -> MomentSet:
    """All sites in full, all pairs of them, and thin sink rows in the fold ``train``."""
    rows = {site: torch.as_tensor(x, dtype=torch.float64) for site, x in rows.items()}
    with MomentSetWriter(path, recipe, storage=storage) as writer:
        folds = {site: by_fold(x) for site, x in rows.items()}
        for fold in FOLDS:
            for site, x in folds.items():
                thin = None if sinks is None or fold != "train" else sinks[site].double()
                writer.put_site(site, fold, Moments.from_rows(x[fold]), (None, thin))
            for x, y in list(combinations(rows, 2)) if pairs is None else pairs:
                joint = JointMoments.from_rows(folds[x][fold], folds[y][fold])
                writer.put_pair(Pair(x, y), fold, joint)
        names = {
            fold: [
                hashlib.sha256(f"{seed}{fold}{i}".encode()).hexdigest() for i in range(documents)
            ]
            for fold in FOLDS
        }
        return writer.finish(documents=names)
