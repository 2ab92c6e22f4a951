"""A bridge that was fitted, with what it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gramian.bridge.rows import as_matrix
from gramian.bridge.saved.side import SideCheck, as_moments, check_side
from gramian.bridge.saved.space import Space
from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.moments import JointMoments, Moments

DIRECTIONS = ("query_to_old", "old_to_new")


@dataclass(frozen=True, eq=False)
class SavedBridge:
    """A map from the vectors of one model to those of another, and all that is known of it.

    Raises
    ------
    GramianError : the map or the moments do not fit the two spaces, or an unknown direction.
    """

    map: LinearMap
    source: Space
    """The space that rows come from."""
    target: Space
    direction: str
    """``query_to_old`` (the source is the new model) or ``old_to_new``."""
    method: str
    pairs: int
    """Pairs that it was fitted on."""
    normalise: bool = False
    """Whether mapped rows are scaled to length 1."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """What ``gramian bridge fit`` printed as JSON."""
    folds: Mapping[str, JointMoments] = field(default_factory=dict)
    """Moments of the pairs, x the source and y the target; empty when they were not kept."""
    paired: bool = True

    def __post_init__(self) -> None:
        widths = (self.source.dim, self.target.dim)
        if self.direction not in DIRECTIONS:
            raise GramianError(
                f"direction is {self.direction!r}, expected one of {', '.join(DIRECTIONS)}"
            )
        if (self.map.in_features, self.map.out_features) != widths:
            raise GramianError(
                f"{self.map!r} does not lead from {self.source} to {self.target}; "
                "give each space the width of its vectors"
            )
        if not self.method or isinstance(self.pairs, bool) or self.pairs < 0:
            raise GramianError(f"bridge: method {self.method!r}, pairs {self.pairs!r}")
        for fold, joint in self.folds.items():
            if (joint.x.d, joint.y.d) != widths:
                raise GramianError(
                    f"fold {fold!r} holds moments of {joint.x.d} -> {joint.y.d}, expected "
                    f"{widths[0]} -> {widths[1]}"
                )

    @cached_property
    def _single(self) -> LinearMap:
        return self.map.to(dtype=torch.float32)

    def __call__(self, rows: Any) -> Tensor:
        """Map rows (n, source.dim) to (n, target.dim); float64 stays, everything else is float32.

        With ``normalise`` the result has unit rows (a row of zeros stays zero).

        Raises
        ------
        GramianError : another width, or NaN or infinity in a row.
        """
        x = as_matrix(rows, f"rows of {self.source.name}", width=self.source.dim)
        double = x.dtype == "float64"
        tensor = torch.from_numpy(x if x.flags.writeable else x.copy())
        if double:
            mapped = self.map.to(dtype=torch.float64)(tensor)
        else:
            mapped = self._single(tensor.to(torch.float32))
        return unit_rows(mapped) if self.normalise else mapped

    def check_source(self, rows: Any) -> SideCheck:
        """Whether rows (n, source.dim), or their `Moments`, are of the source of this bridge.

        Catches the wrong direction between spaces of one width, vectors of another model and
        vectors that a store normalised; `SideCheck.require` turns the finding into an error. See
        `check_side` for the test and its threshold.

        Raises
        ------
        GramianError : another width, or NaN in a row.
        """
        incoming = as_moments(rows, self.source.dim)
        if not self.folds:
            return SideCheck("unknown", "this bridge was saved without moments")
        xs = [joint.x for joint in self.folds.values()]
        ys = [joint.y for joint in self.folds.values()]
        source: Moments = sum(xs[1:], xs[0])
        target: Moments = sum(ys[1:], ys[0])
        return check_side(incoming, source, target, (self.source.name, self.target.name))

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the bridge to a folder, whole or not at all.

        Raises
        ------
        GramianError : the folder exists and ``force`` is off, something else than a bridge is
            there, the report is no JSON, or the disk is full.
        """
        from gramian.bridge.saved.folder import write_bridge

        return write_bridge(self, Path(path), force=force)

    def __repr__(self) -> str:
        return (
            f"SavedBridge({self.source} -> {self.target}, {self.method}, {self.pairs} pairs, "
            f"{self.direction})"
        )


def unit_rows(rows: Tensor) -> Tensor:
    """Rows scaled to length 1; rows of zeros stay zero."""
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(norms > 0, norms, torch.ones_like(norms))
