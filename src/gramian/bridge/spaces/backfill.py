"""Which items of an old index to embed anew first, and what a part of them is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.bridge.retrieval import top_k
from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import JointMoments
from gramian.registry import method
from gramian.solvers import CompatibleHead, ridge
from gramian.solvers.spectrum import eigh

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ExpectedError:
    """The squared error of a map of new rows to old ones, as far as the old row tells of it."""

    residual: LinearMap
    """(d_old, d_old): old rows to the error that is expected of them."""
    floor: float
    """Expected of every item alike: what no old row tells."""

    def __call__(self, old: Any) -> NDArray[np.float64]:
        """Expected squared errors (n,) of items by their old rows (n, d_old).

        Raises
        ------
        GramianError : another width, NaN or infinity.
        """
        rows = as_matrix(old, "old vectors", width=self.residual.in_features)
        out = np.empty(len(rows))
        for first in range(0, len(rows), 65536):
            part = slice(first, first + 65536)
            error = self.residual(rows[part].astype(np.float64))
            out[part] = error.square().sum(1).numpy() + self.floor
        return out


def expected_error(joint: JointMoments, select: JointMoments | None = None) -> ExpectedError:
    """How badly the new row of an item will compare with its old one, from the old row alone.

    With ``B`` the ridge map of new to old and ``r = old - B new``, the error expected of an item
    is ``|Sro Soo^+ (old - mean)|^2 + tr(Srr - Sro Soo^+ Sor) / n``: a quadratic form of its row.

    joint : new as ``x``, old as ``y``, both full. select : chooses the ridge of ``B``.

    Raises
    ------
    GramianError : diagonal moments, or as `gramian.solvers.ridge`.
    """
    if joint.x.is_diagonal or joint.y.is_diagonal:
        raise GramianError("expected_error needs full moments of both; collect order='full'")
    weight = ridge(joint, select).map.to_dense(torch.float64)
    data = joint if select is None else joint + select
    old = data.y.scatter
    told = weight @ data.cross
    residual_old = old - told
    residual = old - told - told.T + weight @ data.x.scatter @ weight.T
    values, vectors = eigh(old)
    kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1]
    basis = vectors[:, kept]
    reading = (residual_old @ basis / values[kept]) @ basis.T
    floor = float(residual.trace() - (reading * residual_old).sum()) / data.count
    return ExpectedError(
        Affine(Dense(reading.contiguous()), -(reading @ data.y.mean)), max(0.0, floor)
    )


@method("backfill_order", job="bridge", paper="2509.16664")
def backfill_order(old: Any, expected: ExpectedError) -> Positions:
    """Positions of items (n,), those to embed anew first leading: by falling expected error.

    old : (n, d_old), the vectors that the index holds. Equal errors stay in the order of the index.

    Raises
    ------
    GramianError : another width, NaN or infinity.
    """
    order: Positions = np.argsort(-expected(old), kind="stable").astype(np.int64)
    return order


@dataclass(frozen=True)
class BackfillPoint:
    """A share of the items embedded anew, and what queries of the new model then find."""

    share: float
    items: int
    recall: float
    """How often the wanted item is among the first k."""


def backfill_curve(
    head: CompatibleHead,
    queries: Any,
    old: Any,
    new: Any,
    wanted: Any,
    order: Any,
    *,
    shares: Sequence[float] = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0),
    k: int = 10,
    metric: str = "cosine",
    backward: LinearMap | None = None,
) -> tuple[BackfillPoint, ...]:
    """Recall of new queries in an index of which only a part, in this order, is embedded anew.

    On a sample of items with both vectors. Items not yet embedded anew stand with their old
    vector, padded with zeros or taken through ``backward``; the others with ``head.both``. Beside
    rows of zeros, new rows score too high: a part of the way recall then falls before it rises.

    Parameters
    ----------
    queries : (q, d_new). old, new : (n, d_old), (n, d_new), the same items. wanted : (q,) position
        of the item that a query should find. order : (n,) positions, as of `backfill_order`.
    backward : old rows to the width of the head, of `gramian.solvers.backward_map`; None pads.

    Raises
    ------
    GramianError : widths or numbers that do not fit, an order that is none, shares outside 0 to 1.
    """
    asked = as_matrix(queries, "queries", width=head.d_new)
    before = as_matrix(old, "old vectors", width=head.d_old)
    after = as_matrix(new, "new vectors", width=head.d_new)
    if len(before) != len(after):
        raise GramianError(f"{len(before)} old and {len(after)} new vectors, expected the same")
    places = np.asarray(order)
    if not np.array_equal(np.sort(places), np.arange(len(before))):
        raise GramianError(f"order is not one of all {len(before)} items, each once")
    sought = np.asarray(wanted)
    if sought.shape != (len(asked),) or not len(asked):
        raise GramianError(f"wanted has shape {sought.shape}, expected one item a query")
    if not ((sought >= 0) & (sought < len(before))).all():
        raise GramianError(f"wanted names items outside 0 to {len(before) - 1}")
    if not all(0 <= share <= 1 for share in shares):
        raise GramianError(f"shares are {tuple(shares)}, expected numbers from 0 to 1")
    lifted = head.forward(torch.from_numpy(asked.astype(np.float64))).numpy()
    old_rows, new_rows = (torch.from_numpy(side.astype(np.float64)) for side in (before, after))
    if backward is not None and backward.shape != (head.width, head.d_old):
        raise GramianError(f"{backward!r}, expected a backward map {head.d_old} -> {head.width}")
    stale = (head.padded if backward is None else backward)(old_rows).numpy()
    fresh = head.both(new_rows, old_rows).numpy()
    points = []
    for share in shares:
        count = round(share * len(before))
        index = stale.copy()
        index[places[:count]] = fresh[places[:count]]
        found, _ = top_k(lifted, index, k, metric=metric)
        recall = float((found == sought[:, None]).any(1).mean())
        points.append(BackfillPoint(float(share), count, recall))
    return tuple(points)
