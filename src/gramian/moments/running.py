"""The sums of an accumulator and how a batch is added to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gramian.moments.batch import Batch, Source, check_finite, dot, pilot, stage
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments
from gramian.moments.products import Scratch, add_cross, add_gram, combine
from gramian.moments.sums import TOLERATED, PairSums, StreamSums

PILOT = 256
"""Rows at the start of the first batch whose mean is the first shift."""

_INCREMENT = " - "


class Pair(NamedTuple):
    """Two sites whose cross scatter is kept."""

    x: str
    y: str
    increment: bool = False
    """Keep ``y - x``, formed row by row before the product, in the place of ``y``."""

    def __str__(self) -> str:
        return f"{self.x} -> {self.y} - {self.x}" if self.increment else f"{self.x} -> {self.y}"


class Running:
    """Sums of every stream (a site, or the increment of a pair) and every pair, about shifts.

    Trusts what it is given; :class:`Accumulator` checks it first.
    """

    def __init__(
        self,
        sites: Mapping[str, int],
        pairs: Sequence[Pair],
        orders: Mapping[str, str],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.dtype, self.device = dtype, device
        self.count = 0.0
        self.count2 = 0.0
        self.scratch = Scratch()
        self._recent: tuple[str, Moments] | None = None
        with torch.inference_mode(False):
            self.streams = {
                site: StreamSums.zeros(d, orders[site] == "diagonal", device)
                for site, d in sites.items()
            }
            self.pairs: dict[Pair, PairSums] = {}
            for pair in pairs:
                self.pairs[pair] = PairSums.zeros(sites[pair.x], sites[pair.y], device)
                if pair.increment:
                    self.streams[str(pair)] = StreamSums.zeros(sites[pair.y], True, device)

    def add(
        self, rows: Mapping[str, Tensor], index: Tensor | None, weight: Tensor | None, n: int
    ) -> None:
        """Add ``n`` rows of each site: all of those given, or those of the index."""
        self._recent = None
        count, count2 = float(n), float(n)
        root = None
        if weight is not None:
            count, count2 = float(weight.sum()), float(weight @ weight)
            root = weight.sqrt().to(self.dtype).to(self.device)
        placed = {
            site: self._place(
                site, Source(x, None, index, self.streams[site].is_diagonal), count, root
            )
            for site, x in rows.items()
        }
        # Norms whose combination with the rows of a site is wanted, and where it is added.
        wanted: dict[str, list[tuple[Tensor, Tensor]]] = {site: [] for site in rows}
        for pair, sums in self.pairs.items():
            x = placed[pair.x]
            if pair.increment:
                y = self._increment(pair, rows, placed, index, count, root)
                sums.xy += combine(x.norms[None], y.rows)[0]
                self._add_stream(self.streams[str(pair)], y)
            else:
                y = placed[pair.y]
                wanted[pair.y].append((x.norms, sums.xy))
            wanted[pair.x].append((y.norms, sums.yx))
            sums.product += dot(x.norms, y.norms)
            add_cross(sums.cross, x.rows, y.rows, self.scratch)
        for site, batch in placed.items():
            stream = self.streams[site]
            if not stream.is_diagonal:
                wanted[site].append((batch.norms, stream.vector))
            if wanted[site]:
                norms = torch.stack([norms for norms, _ in wanted[site]])
                for (_, total), added in zip(wanted[site], combine(norms, batch.rows), strict=True):
                    total += added
            self._add_stream(stream, batch)
        self.count += count
        self.count2 += count2
        for name, stream in self.streams.items():
            offset, deviation = stream.spread(self.count)
            if offset > TOLERATED * deviation:
                self.move(name, stream.shift + stream.total / self.count)

    def _increment(
        self,
        pair: Pair,
        rows: Mapping[str, Tensor],
        placed: Mapping[str, Batch],
        index: Tensor | None,
        count: float,
        root: Tensor | None,
    ) -> Batch:
        """Rows of ``y - x``: of the rows placed already, about the difference of their shifts,
        unless those carry a weight or were rounded."""
        exact = max(rows[site].element_size() for site in pair[:2]) <= self.dtype.itemsize
        if root is not None or not exact:
            source = Source(rows[pair.x], rows[pair.y], index, squares=True)
            return self._place(str(pair), source, count, root)
        source = Source(placed[pair.x].rows, placed[pair.y].rows, None, squares=True)
        gone = self.streams[pair.y].shift - self.streams[pair.x].shift
        return self._place(str(pair), source, count, root, gone)

    def _place(
        self,
        name: str,
        source: Source,
        count: float,
        root: Tensor | None,
        gone: Tensor | float = 0.0,
    ) -> Batch:
        """Rows of a stream about its shift, which is chosen first or moved when it is far off.

        ``gone`` is what the rows of the source have lost already.
        """
        stream, buffer = self.streams[name], name if source.y is None else _INCREMENT

        def staged(source: Source, root: Tensor | None = root) -> Batch:
            shift = stream.shift - gone
            batch = stage(source, shift, root, self.scratch, buffer, self.dtype)
            return check_finite(batch, name)

        if self.count == 0:
            head = None if root is None else root[:PILOT]
            first = staged(source.head(PILOT), head)
            assert first.squares is not None
            weight = (
                float(len(first.rows)) if head is None else float(head.double() @ head.double())
            )
            stream.shift.copy_(stream.shift + pilot(first, weight, first.squares))
        batch = staged(source)
        if self.count > 0 and len(batch.rows) > 1:
            offset = float(batch.total @ batch.total) / count**2
            weighted = batch.norms if root is None else batch.norms * root
            deviation = float(weighted.sum()) / count - offset
            if offset > TOLERATED * max(deviation, stream.spread(self.count)[1], 0.0):
                self.move(name, stream.shift + batch.total / count)
                batch = staged(source)
        return batch

    def _add_stream(self, stream: StreamSums, batch: Batch) -> None:
        stream.total += batch.total
        stream.square += dot(batch.norms, batch.norms)
        if batch.squares is not None:
            stream.second += batch.squares
        else:
            add_gram(stream.second, batch.rows, self.scratch)

    def move(self, name: str, mean: Tensor) -> None:
        """Move the sums of a stream, and of every pair it is in, to a shift near ``mean``."""
        stream = self.streams[name]
        shift = mean.to(self.dtype).to(torch.float64)
        delta = shift - stream.shift
        if not bool(delta.any()):
            return
        if self.count > 0:
            for pair, sums in self.pairs.items():
                x, y = self.ends(pair)
                if stream is x or stream is y:
                    delta_x = delta if stream is x else torch.zeros_like(x.shift)
                    delta_y = delta if stream is y else torch.zeros_like(y.shift)
                    sums.move(x, y, delta_x, delta_y, self.count)
        stream.move(shift, self.count)

    def clear(self) -> None:
        """Back to no rows; the memory stays."""
        self.count = self.count2 = 0.0
        self._recent = None
        for tensor in self.tensors().values():
            tensor.zero_()

    def merge(self, other: Running) -> None:
        """Add the sums of ``other``, which are moved to the same shifts first."""
        self._recent = None
        if other.count == 0:
            return
        for name, stream in self.streams.items():
            if self.count == 0:
                stream.shift.copy_(other.streams[name].shift)
            other.move(name, stream.shift)
            stream.add(other.streams[name])
        for pair, sums in self.pairs.items():
            sums.add(other.pairs[pair])
        self.count += other.count
        self.count2 += other.count2

    def ends(self, pair: Pair) -> tuple[StreamSums, StreamSums]:
        """The two streams of a pair."""
        return self.streams[pair.x], self.streams[str(pair) if pair.increment else pair.y]

    def moments(self, name: str) -> Moments:
        """Moments of a stream; the last one is remembered, as pairs come grouped by source."""
        if self._recent is None or self._recent[0] != name:
            self._recent = (name, self.streams[name].moments(self.count, self.count2))
        return self._recent[1]

    def joint(self, pair: Pair) -> JointMoments:
        """Joint moments of a pair."""
        x, y = self.ends(pair)
        cross, quartic = self.pairs[pair].about_means(x, y, self.count)
        target = y.moments(self.count, self.count2)
        return JointMoments(self.moments(pair.x), target, cross, quartic)

    def tensors(self) -> dict[str, Tensor]:
        """All sums by name, live."""
        parts: dict[str, StreamSums | PairSums] = {
            f"stream {k}": v for k, v in self.streams.items()
        }
        parts |= {f"pair {k}": v for k, v in self.pairs.items()}
        return {f"{k}: {n}": t for k, part in parts.items() for n, t in part.tensors().items()}
