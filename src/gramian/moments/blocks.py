"""The stored blocks of a moments set, decoded one at a time.

A fold of a site has up to three: its rows, its dense sink rows, and its thin sink rows (kept
raw, aligned between sites, so that any pair's joint sinks follow from two of them).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.codec import Read, decode_joint, decode_moments, decode_reservoir
from gramian.moments.format import Index
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments
from gramian.moments.part import Part
from gramian.moments.parts import Parts
from gramian.moments.reservoir import Reservoir
from gramian.moments.tiles import is_finite


class Blocks:
    """Decodes the blocks of the parts that an index lists."""

    def __init__(self, index: Index, parts: Parts) -> None:
        self._parts = parts
        self._sites = {part.names[0]: part for part in index.parts if part.kind == "site"}

    def where(self, part: Part) -> str:
        """The part's file, for messages."""
        return part.title if self._parts.path is None else str(self._parts.path / part.file)

    def reader(self, part: Part, fold: str) -> Read:
        """Reads the tensors of one fold of one part by their names inside it."""

        def read(name: str) -> Tensor | None:
            full = f"{fold}.{name}"
            return self._parts.tensor(part, full) if full in part.tensors else None

        return read

    def dense(self, part: Part, fold: str, block: str, diagonal: bool = False) -> Moments | None:
        """The moments stored for ``"rows"`` or ``"sinks"`` of a site; None without any."""
        read, full = self.reader(part, fold), part.order == "full"
        moments = decode_moments(
            read, f"{block}.", part.dims[0], full, self.where(part), diagonal=diagonal
        )
        if moments is not None:
            thin = part.tensors.get(f"{fold}.sinks.thin")
            held = thin.shape[0] if thin is not None and block == "sinks" else 0
            self._check_count(part, fold, block, moments.count + held)
        return moments

    def _check_count(self, part: Part, fold: str, block: str, count: float) -> None:
        listed = part.counts[fold][block == "sinks"]
        if count != listed:
            raise GramianError(
                f"{self.where(part)}: the fold {fold!r} holds {count:g} {block}, the index says "
                f"{listed:g}"
            )

    def thin(self, part: Part, fold: str) -> Tensor | None:
        """The raw sink rows (k, d) of a site; None without any."""
        rows = self.reader(part, fold)("sinks.thin")
        if rows is not None and not is_finite(rows):
            raise GramianError(f"{self.where(part)}: '{fold}.sinks.thin' holds NaN or infinity")
        return rows

    def reservoir(self, part: Part, fold: str) -> Reservoir:
        """The raw rows kept of a site."""
        return decode_reservoir(self.reader(part, fold), self.where(part))

    def moments(self, part: Part, fold: str, sinks: bool) -> Iterator[Moments]:
        """All blocks of one fold of a site, to be added."""
        for block in ("rows", "sinks")[: 1 + sinks]:
            dense = self.dense(part, fold, block)
            if dense is not None:
                yield dense
        thin = self.thin(part, fold) if sinks else None
        if thin is not None:
            yield Moments.from_rows(thin, order=part.order)

    def dense_joint(
        self, part: Part, fold: str, block: str, diagonal: bool = False
    ) -> JointMoments | None:
        """The joint moments stored for ``"rows"`` or ``"sinks"`` of a pair; None without any.

        With ``diagonal`` those of the source are reduced to their diagonal: enough to add.
        """
        source = self._sites[part.names[0]]
        x = self.dense(source, fold, block, diagonal=diagonal)
        prefix = f"{fold}.{block}."
        if x is None or f"{prefix}cross" not in part.tensors:
            if x is not None and x.count > 0:
                raise GramianError(
                    f"{self.where(part)}: the {part.title} has no {block} in the fold {fold!r}, "
                    f"its source has {x.count:g}"
                )
            return None
        read = self.reader(part, fold)
        joint = decode_joint(read, f"{block}.", x, part.dims[1], self.where(part))
        if joint is not None:
            self._check_count(part, fold, block, joint.y.count)
        return joint

    def thin_joint(self, part: Part, fold: str) -> JointMoments | None:
        """The joint moments of the raw sink rows of a pair's two sites; None without any."""
        x_site, y_site = (self._sites.get(name) for name in part.names)
        x = None if x_site is None else self.thin(x_site, fold)
        y = None if y_site is None or fold not in y_site.counts else self.thin(y_site, fold)
        if x is None or len(x) == 0:
            return None
        if y is None or len(y) != len(x):
            raise GramianError(
                f"{self.where(part)}: {len(x)} sink rows of {part.names[0]!r} and "
                f"{0 if y is None else len(y)} of {part.names[1]!r} in the fold {fold!r}, "
                "expected the same rows of both; the sinks of this pair are not stored"
            )
        return joint_of_thin(x, y, part.increment)

    def joint(self, part: Part, fold: str, sinks: bool) -> Iterator[JointMoments]:
        """All blocks of one fold of a pair, to be added; the target is diagonal."""
        for block in ("rows", "sinks")[: 1 + sinks]:
            dense = self.dense_joint(part, fold, block)
            if dense is not None:
                yield dense
        thin = self.thin_joint(part, fold) if sinks else None
        if thin is not None:
            if self._sites[part.names[0]].order == "diagonal":
                thin = JointMoments(thin.x.diagonal(), thin.y, thin.cross, thin.quartic)
            yield thin


def joint_of_thin(x: Tensor, y: Tensor, increment: bool) -> JointMoments:
    """Joint moments, with a diagonal target, of raw sink rows (k, dx) and (k, dy)."""
    x, y = x.to(torch.float64), y.to(torch.float64)
    return JointMoments.from_rows(x, y - x if increment else y, target="diagonal")
