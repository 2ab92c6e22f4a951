"""Narrower vectors, and what the narrowing costs in search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.retrieval import shared, top_k
from gramian.bridge.rows import as_matrix
from gramian.bridge.sharpen.sums import moments_of
from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.registry import method
from gramian.solvers.spectrum import eigh


@dataclass(frozen=True)
class WidthCost:
    """One width, and what search finds with it."""

    width: int
    energy: float
    """Share of the sum of squares that the leading directions hold."""
    overlap: float
    """Share of the first k at full width that is still among the first k."""
    stderr: float
    """Standard error of ``overlap`` over the queries; nan of one query."""
    recall: float | None
    """How often the wanted row is among the first k; None where none was named."""


@dataclass(frozen=True, eq=False)
class Reduction:
    """A projection to fewer dimensions, and the curve that its width was chosen on."""

    map: LinearMap
    """(width, d), orthonormal rows."""
    width: int
    curve: tuple[WidthCost, ...]
    """By rising width; the last is the full one."""
    k: int
    notes: tuple[str, ...] = ()


@method(
    "pca_reduction", job="bridge", paper="Pearson 1901; Jolliffe 2002, Principal Component Analysis"
)
def reduce_width(
    vectors: Any,
    queries: Any = None,
    *,
    keep: float | None = 0.95,
    width: int | None = None,
    widths: Sequence[int] | None = None,
    k: int = 10,
    wanted: Any = None,
    centre: bool = False,
    metric: str = "cosine",
    held: int = 1000,
    seed: int = 0,
) -> Reduction:
    """Project vectors on their leading directions; the width by what search still finds.

    The least width at which, over the queries, ``keep`` of the first k rows are found that the
    full width finds. The directions are those of the second moments about zero, which keep inner
    products best, unless ``centre``; the queries are never fitted on.

    Parameters
    ----------
    vectors : (n, d), the index. queries : (q, d); None puts aside ``held`` rows of the index,
        at most a tenth, drawn with ``seed``.
    keep : share of the first k to keep, above 0 and at most 1. width : or a width, whatever it
        costs; then ``keep`` is not looked at.
    widths : to try; by default halves and three quarters of d, down to 4.
    wanted : (q,) position in ``vectors`` that every query should find, for recall as well.
    centre : subtract the mean first; cosines and inner products then differ from those of the
        vectors as they are, at full width too.

    Raises
    ------
    GramianError : widths that do not fit, k or keep out of range, no rows, NaN.
    """
    index = as_matrix(vectors, "vectors")
    index, asked = _held_out(index, queries, held, seed)
    if not len(asked):
        raise GramianError("no queries to judge by; pass at least one")
    d = index.shape[1]
    tried = _widths(d, width, widths)
    if width is None and (keep is None or not 0 < keep <= 1):
        raise GramianError(f"keep is {keep}, expected a share above 0 and at most 1, or a width")
    places = _wanted(wanted, len(asked), len(index), queries is not None)
    moments = moments_of(index)
    values, vectors_of = eigh(moments.scatter if centre else moments.raw())
    basis = vectors_of.flip(1)
    energy = values.flip(0).clamp_min(0.0).cumsum(0)
    if not float(energy[-1]) > 0:
        raise GramianError("the vectors are all zero" + (" about their mean" if centre else ""))
    shift = moments.mean.numpy() if centre else np.zeros(d)
    sought, _ = top_k(asked, index, k, metric=metric)
    turned = [_turned(rows, shift, basis.numpy()) for rows in (asked, index)]
    curve = []
    for size in tried:
        found, _ = top_k(turned[0][:, :size], turned[1][:, :size], k, metric=metric)
        share = shared(found, sought).astype(np.float64)
        spread = float(share.std(ddof=1) / np.sqrt(len(share))) if len(share) > 1 else float("nan")
        recall = None if places is None else float((found == places[:, None]).any(1).mean())
        part = float(energy[size - 1] / energy[-1])
        curve.append(WidthCost(size, part, float(share.mean()), spread, recall))
    chosen, notes = width, []
    if chosen is None:
        enough = [cost.width for cost in curve if keep is not None and cost.overlap >= keep]
        chosen = min(enough, default=d)
        if not enough:
            notes.append(f"no width keeps {keep:g} of the first {k}; the full width is kept")
    weight = basis[:, :chosen].T.contiguous()
    map: LinearMap = Dense(weight)
    if centre:
        map = Affine(map, -(weight @ moments.mean))
    return Reduction(map, chosen, tuple(curve), k, tuple(notes))


def _turned(rows: Any, shift: Any, basis: Any) -> NDArray[np.float32]:
    """Rows about the shift in the basis, in blocks."""
    out = np.empty(rows.shape, np.float32)
    for first in range(0, len(rows), 65536):
        part = slice(first, first + 65536)
        out[part] = (rows[part].astype(np.float64) - shift) @ basis
    return out


def _held_out(index: Any, queries: Any, held: int, seed: int) -> tuple[Any, Any]:
    if queries is not None:
        return index, as_matrix(queries, "queries", width=index.shape[1])
    if held < 1 or len(index) < 20:
        raise GramianError(
            f"{len(index)} vectors and held = {held}: pass queries, or at least 20 vectors to put "
            "some aside"
        )
    drawn = np.random.default_rng(seed).permutation(len(index))
    count = min(held, len(index) // 10)
    return index[np.sort(drawn[count:])], index[np.sort(drawn[:count])]


def _widths(d: int, width: int | None, widths: Sequence[int] | None) -> list[int]:
    if widths is None:
        halves = [d >> i for i in range(d.bit_length())]
        widths = [w for half in halves for w in (half, half * 3 // 4) if w >= min(4, d)]
    tried = sorted({*widths, d} | ({width} if width is not None else set()))
    if tried[0] < 1 or tried[-1] > d:
        raise GramianError(f"widths are {tried[0]} to {tried[-1]}, expected 1 to {d}")
    return tried


def _wanted(wanted: Any, count: int, size: int, given: bool) -> NDArray[np.int64] | None:
    if wanted is None:
        return None
    if not given:
        raise GramianError("wanted names a row for every query; pass the queries too")
    places = np.asarray(wanted)
    if places.shape != (count,) or places.dtype.kind not in "iu":
        raise GramianError(f"wanted is {places.dtype} of shape {places.shape}, expected ({count},)")
    if count and not (int(places.min()) >= 0 and int(places.max()) < size):
        raise GramianError(f"wanted names rows outside 0 to {size - 1}")
    return places.astype(np.int64)
