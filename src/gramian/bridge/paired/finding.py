"""What mapped rows find: their own partner, and the neighbours that the partner has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.retrieval import partner_ranks, shared, top_k

NEIGHBOURS = 10


@dataclass(frozen=True, eq=False)
class Finding:
    """Per mapped row: the rank of its partner, and the share of the partner's neighbours found."""

    ranks: NDArray[np.int64]
    """(n,), 0 when the partner comes first."""
    overlap: NDArray[np.float32]
    """(n,), of the ten nearest other targets."""

    @property
    def scores(self) -> NDArray[np.float64]:
        """(n,) mean of the reciprocal rank of the partner and the overlap."""
        return np.asarray((1.0 / (1.0 + self.ranks) + self.overlap) / 2.0, np.float64)

    def to_json(self) -> dict[str, float]:
        """The means, by name."""
        return {
            "recall@1": float((self.ranks < 1).mean()),
            "recall@10": float((self.ranks < 10).mean()),
            "mrr": float((1.0 / (1.0 + self.ranks)).mean()),
            f"overlap@{NEIGHBOURS}": float(self.overlap.mean()),
        }


class Targets:
    """Targets to be found, and which are neighbours of which; searched once for all maps."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self.rows = rows
        self.k = min(NEIGHBOURS, len(rows) - 1)
        self._neighbours = _others(rows, rows, self.k)

    def found_by(self, mapped: NDArray[Any]) -> Finding:
        """What row i of ``mapped`` (n, d), the image of target i's partner, finds by cosine."""
        overlap = shared(_others(mapped, self.rows, self.k), self._neighbours)
        return Finding(partner_ranks(mapped, self.rows), overlap)


def _others(queries: NDArray[Any], index: NDArray[Any], k: int) -> NDArray[np.int64]:
    """The k nearest rows of the index to query i, row i itself left out."""
    found, _ = top_k(queries, index, k + 1)
    other = found != np.arange(len(found))[:, None]
    # the last one goes where the own row is not among them
    other[other.all(axis=1), -1] = False
    others: NDArray[np.int64] = found[other].reshape(len(found), k)
    return others
