"""Two embedding models of one corpus, made so that the right advice is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class World:
    """Arguments of `judge`, and the map from the new space to the old one."""

    arguments: dict[str, Any]
    qrels: dict[str, dict[str, int]]

    def judged(self, **changes: Any) -> dict[str, Any]:
        return {**self.arguments, "qrels": self.qrels, **changes}

    def unjudged(self, **changes: Any) -> dict[str, Any]:
        return {**self.arguments, **changes}


def world(
    *,
    queries: int = 120,
    items: int = 800,
    new: int = 24,
    old: int = 24,
    old_query_noise: float = 0.0,
    old_item_noise: float = 0.0,
    new_item_noise: float = 0.0,
    noise: float = 0.45,
    seed: int = 0,
) -> World:
    """Items z of the new model, items z A of the old one, queries near the item they look for."""
    random = np.random.default_rng(seed)
    z = random.standard_normal((items, new))
    picked = random.choice(items, queries, replace=False)
    asked = z[picked] + noise * random.standard_normal((queries, new))
    a = np.linalg.qr(random.standard_normal((max(new, old), max(new, old))))[0][:new, :old]

    def noisy(rows, level):
        return rows + level * random.standard_normal(rows.shape)

    arguments = {
        "bridge": lambda rows: np.asarray(rows, np.float64) @ a,
        "new_queries": asked.astype(np.float32),
        "old_queries": noisy(asked @ a, old_query_noise).astype(np.float32),
        "old_index": noisy(z @ a, old_item_noise).astype(np.float32),
        "new_index": noisy(z, new_item_noise).astype(np.float32),
        "query_ids": [f"q{i}" for i in range(queries)],
        "item_ids": [f"d{i}" for i in range(items)],
        "bootstrap": 300,
        "candidates": 40,
    }
    return World(arguments, {f"q{i}": {f"d{p}": 1} for i, p in enumerate(picked)})
