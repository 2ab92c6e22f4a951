"""Whether a rotation can do at all, before any map is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.rows import as_matrix, check_finite
from gramian.errors import GramianError
from gramian.measures.procrustes_bound import ProcrustesBound, procrustes_bound
from gramian.moments import JointMoments

SAMPLE = 4096


def feasibility(X: Any, Y: Any, *, rows: int = SAMPLE, random_state: int = 0) -> ProcrustesBound:
    """What the best rotation from X to Y reaches at least, without fitting one (2510.13406).

    Rows are scaled to length 1, so that `cosine` bounds their mean cosine behind the rotation. A
    high bound says that a rotation will do; a low one says nothing, another family may, too.

    Parameters
    ----------
    X, Y : paired rows (n, dx) and (n, dy), in whatever :func:`as_matrix` takes.
    rows : pairs that are looked at, drawn at random; the bound is theirs.

    Raises
    ------
    GramianError : unequal lengths, no rows, or NaN or infinity in a row that is looked at.
    """
    x, y = as_matrix(X, "X", finite=False), as_matrix(Y, "Y", finite=False)
    if len(x) != len(y):
        raise GramianError(f"{len(x)} rows of X and {len(y)} of Y, expected pairs")
    if rows < 1:
        raise GramianError(f"rows is {rows}, expected at least 1")
    if len(x) > rows:
        chosen = np.random.default_rng(random_state).choice(len(x), rows, replace=False)
        chosen.sort()
        x, y = x[chosen], y[chosen]
    check_finite(x, "X")
    check_finite(y, "Y")
    return bound_of_rows(x, y)


def bound_of_rows(x: NDArray[Any], y: NDArray[Any]) -> ProcrustesBound:
    """The bound for finite paired rows, all of them, scaled to length 1."""
    return procrustes_bound(JointMoments.from_rows(_unit(x), _unit(y), quartic=False))


def _unit(rows: NDArray[Any]) -> NDArray[np.float64]:
    wide = rows.astype(np.float64)
    # by the largest entry first, so that no square overflows or vanishes
    top = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
    wide /= np.where(top > 0, top, 1.0)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    wide /= np.where(norms > 0, norms, 1.0)
    return wide
