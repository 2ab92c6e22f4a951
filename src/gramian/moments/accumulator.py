"""Streaming second moments of several sites and pairs over the same rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.batch import Batch, Source, check_finite, dot, pilot, stage
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments, NonFiniteRows, check_order, float64_weight
from gramian.moments.products import (
    Scratch,
    add_cross,
    add_gram,
    as_rows,
    combine,
    full_precision,
)
from gramian.moments.sums import TOLERATED, PairSums, StreamSums

BLOCK = 4096
"""Rows in one product; more rows in one batch are taken in blocks of this many."""

_INCREMENT = " - "
_DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Pair(NamedTuple):
    """Two sites whose cross scatter is kept."""

    x: str
    y: str
    increment: bool = False
    """Keep ``y - x``, formed row by row before the product, in the place of ``y``."""

    def __str__(self) -> str:
        return f"{self.x} -> {self.y} - {self.x}" if self.increment else f"{self.x} -> {self.y}"


class Accumulator:
    """Streaming sums for several sites and pairs over the same rows; the only mutable part.

    Rows are cast to ``precision``, shifted by a pilot mean, multiplied in full precision and
    added into float64 sums. When the mean leaves the shift, the sums move to a new one, so
    nothing is lost to a large mean or to an untypical first batch.

    sites : name to width. pairs : whose cross scatter to keep; an increment pair keeps the
    diagonal moments of ``y - x``. orders : site to ``"full"`` (default) or ``"diagonal"``.
    precision : ``"float32"`` or ``"float64"``, of the products. device : of rows and sums.

    Raises
    ------
    GramianError : an unknown site in a pair or in ``orders``, an increment of unequal widths.
    """

    def __init__(
        self,
        sites: Mapping[str, int],
        pairs: Sequence[Pair] = (),
        *,
        orders: Mapping[str, str] | None = None,
        precision: str = "float32",
        device: torch.device | str = "cpu",
    ) -> None:
        if precision not in _DTYPES:
            raise GramianError(f"precision is {precision!r}, expected 'float32' or 'float64'")
        self.sites = dict(sites)
        self.pairs = tuple(dict.fromkeys(Pair(*pair) for pair in pairs))
        self.orders = {site: "full" for site in self.sites} | dict(orders or {})
        self.precision, self.device = precision, torch.device(device)
        self._check_names()
        self.count = 0.0
        self.count2 = 0.0
        self._dtype = _DTYPES[precision]
        self._scratch = Scratch()
        with torch.inference_mode(False):
            self._streams = {
                site: StreamSums.zeros(d, self.orders[site] == "diagonal", self.device)
                for site, d in self.sites.items()
            }
            self._pairs: dict[Pair, PairSums] = {}
            for pair in self.pairs:
                dx, dy = self.sites[pair.x], self.sites[pair.y]
                self._pairs[pair] = PairSums.zeros(dx, dy, self.device)
                if pair.increment:
                    self._streams[str(pair)] = StreamSums.zeros(dy, True, self.device)

    def _check_names(self) -> None:
        for site, order in self.orders.items():
            check_order(order, f"site {site!r}")
        known = ", ".join(self.sites)
        named = [site for pair in self.pairs for site in pair[:2]]
        for site in [*named, *self.orders]:
            if site not in self.sites:
                raise GramianError(f"unknown site {site!r}; the sites are {known}")
        for pair in self.pairs:
            if pair.increment and self.sites[pair.x] != self.sites[pair.y]:
                raise GramianError(
                    f"increment {pair}: widths {self.sites[pair.x]} and {self.sites[pair.y]} differ"
                )

    def update(self, rows: Mapping[str, Any], weight: Any = None) -> None:
        """Add one batch: ``rows[site]`` is (n, d), of any float dtype and strides, the same n.

        weight : (n,) not negative; rows of weight zero are left out whatever they hold.

        Raises
        ------
        GramianError : a site is missing or has the wrong shape, or a row holds NaN or infinity
            (the exception has ``.site`` and ``.row``); nothing of the batch is added then.
        """
        with torch.inference_mode(False), torch.no_grad(), full_precision():
            batch = self._checked(rows)
            n = len(next(iter(batch.values()))) if batch else 0
            w = float64_weight(weight, next(iter(batch.values()))) if batch else None
            index: Tensor | None = None
            if w is not None and bool((w == 0).any()):
                index = w.nonzero()[:, 0]
                batch = {site: x[index.to(x.device)] for site, x in batch.items()}
                w, n = w[index], len(index)
            if w is not None and bool((w == 1).all()):
                w = None
            if n > BLOCK:
                self._check_finite(batch, index)
            for start in range(0, n, BLOCK):
                part = {site: x[start : start + BLOCK] for site, x in batch.items()}
                try:
                    self._add(part, None if w is None else w[start : start + BLOCK])
                except NonFiniteRows as error:
                    row = start + error.row
                    row = row if index is None else int(index[row])
                    raise NonFiniteRows(error.site, row, error.reason) from None

    def _checked(self, rows: Mapping[str, Any]) -> dict[str, Tensor]:
        batch: dict[str, Tensor] = {}
        n: int | None = None
        for site, d in self.sites.items():
            if site not in rows:
                raise GramianError(f"no rows for site {site!r} in this batch")
            x = as_rows(rows[site])
            n = len(x) if n is None else n
            if tuple(x.shape) != (n, d) or not x.is_floating_point():
                raise GramianError(
                    f"site {site!r}: {x.dtype} rows of shape {tuple(x.shape)}, expected "
                    f"floating point ({n}, {d})"
                )
            batch[site] = x.to(self.device)
        return batch

    def _check_finite(self, batch: Mapping[str, Tensor], index: Tensor | None) -> None:
        for site, x in batch.items():
            for start in range(0, len(x), BLOCK):
                block = x[start : start + BLOCK].to(self._dtype)
                bad = ~torch.isfinite(torch.linalg.vector_norm(block, dim=1))
                if bool(bad.any()):
                    row = start + int(bad.nonzero()[0])
                    raise NonFiniteRows(site, row if index is None else int(index[row]))

    def _add(self, rows: Mapping[str, Tensor], weight: Tensor | None) -> None:
        n = float(len(next(iter(rows.values()))))
        count, count2 = (n, n) if weight is None else (float(weight.sum()), float(weight @ weight))
        root = None if weight is None else weight.sqrt().to(self._dtype).to(self.device)
        placed = {
            site: self._place(site, Source(x, squares=self._streams[site].is_diagonal), count, root)
            for site, x in rows.items()
        }
        # Norms whose combination with the rows of a site is wanted, and where it is added.
        wanted: dict[str, list[tuple[Tensor, Tensor]]] = {site: [] for site in rows}
        for pair, sums in self._pairs.items():
            x = placed[pair.x]
            if pair.increment:
                source = Source(rows[pair.x], rows[pair.y], squares=True)
                y = self._place(str(pair), source, count, root)
                sums.xy += combine(x.norms[None], y.rows)[0]
                self._add_stream(self._streams[str(pair)], y)
            else:
                y = placed[pair.y]
                wanted[pair.y].append((x.norms, sums.xy))
            wanted[pair.x].append((y.norms, sums.yx))
            sums.product += dot(x.norms, y.norms)
            add_cross(sums.cross, x.rows, y.rows, self._scratch)
        for site, batch in placed.items():
            stream = self._streams[site]
            if not stream.is_diagonal:
                wanted[site].append((batch.norms, stream.vector))
            if wanted[site]:
                norms = torch.stack([norms for norms, _ in wanted[site]])
                for (_, total), added in zip(wanted[site], combine(norms, batch.rows), strict=True):
                    total += added
            self._add_stream(stream, batch)
        self.count += count
        self.count2 += count2
        for name, stream in self._streams.items():
            offset, deviation = stream.spread(self.count)
            if offset > TOLERATED * deviation:
                self._move(name, stream.shift + stream.total / self.count)

    def _place(self, name: str, source: Source, count: float, root: Tensor | None) -> Batch:
        """Rows of a stream about its shift, which is chosen first or moved when it is far off."""
        stream, buffer = self._streams[name], name if source.y is None else _INCREMENT

        def staged(source: Source) -> Batch:
            batch = stage(source, stream.shift, root, self._scratch, buffer, self._dtype)
            return check_finite(batch, name)

        if self.count == 0:
            first = staged(source._replace(squares=True))
            assert first.squares is not None
            stream.shift.copy_(stream.shift + pilot(first, count, first.squares))
        batch = staged(source)
        if self.count > 0 and len(batch.rows) > 1:
            offset = float(batch.total @ batch.total) / count**2
            weighted = batch.norms if root is None else batch.norms * root
            deviation = float(weighted.sum()) / count - offset
            if offset > TOLERATED * max(deviation, stream.spread(self.count)[1], 0.0):
                self._move(name, stream.shift + batch.total / count)
                batch = staged(source)
        return batch

    def _add_stream(self, stream: StreamSums, batch: Batch) -> None:
        stream.total += batch.total
        stream.square += dot(batch.norms, batch.norms)
        if batch.squares is not None:
            stream.second += batch.squares
        else:
            add_gram(stream.second, batch.rows, self._scratch)

    def _move(self, name: str, mean: Tensor) -> None:
        """Move the sums of a stream, and of every pair it is in, to a shift near ``mean``."""
        stream = self._streams[name]
        shift = mean.to(self._dtype).to(torch.float64)
        delta = shift - stream.shift
        if not bool(delta.any()):
            return
        if self.count > 0:
            for pair, sums in self._pairs.items():
                x, y = self._ends(pair)
                zero_x, zero_y = torch.zeros_like(x.shift), torch.zeros_like(y.shift)
                if stream is x or stream is y:
                    moved = (delta if stream is x else zero_x, delta if stream is y else zero_y)
                    sums.move(x, y, *moved, self.count)
        stream.move(shift, self.count)

    def _ends(self, pair: Pair) -> tuple[StreamSums, StreamSums]:
        return self._streams[pair.x], self._streams[str(pair) if pair.increment else pair.y]

    def moments(self, site: str) -> Moments:
        """Moments of all rows so far at one site."""
        if site not in self.sites:
            raise GramianError(f"unknown site {site!r}; the sites are {', '.join(self.sites)}")
        return self._streams[site].moments(self.count, self.count2)

    def joint(self, pair: Pair) -> JointMoments:
        """Joint moments of all rows so far of one pair."""
        pair = Pair(*pair)
        if pair not in self._pairs:
            known = ", ".join(map(str, self.pairs)) or "none"
            raise GramianError(f"unknown pair {pair}; the pairs are {known}")
        x, y = self._ends(pair)
        cross, quartic = self._pairs[pair].about_means(x, y, self.count)
        left, right = (stream.moments(self.count, self.count2) for stream in (x, y))
        return JointMoments(left, right, cross, quartic)

    def _tensors(self) -> dict[str, Tensor]:
        parts: dict[str, StreamSums | PairSums] = {
            f"stream {k}": v for k, v in self._streams.items()
        }
        parts |= {f"pair {k}": v for k, v in self._pairs.items()}
        return {f"{k}: {n}": t for k, part in parts.items() for n, t in part.tensors().items()}

    @property
    def nbytes(self) -> int:
        """Bytes of the sums, without the buffers for one batch."""
        return sum(t.numel() * t.element_size() for t in self._tensors().values())

    def _config(self) -> dict[str, Any]:
        return {
            "sites": self.sites,
            "pairs": [list(pair) for pair in self.pairs],
            "orders": self.orders,
            "precision": self.precision,
        }

    def state(self, *, copy: bool = True) -> dict[str, Tensor]:
        """Everything as tensors, for :meth:`restore`; with ``copy=False`` they stay live."""
        text = json.dumps(self._config()).encode()
        state = {name: t.clone() if copy else t for name, t in self._tensors().items()}
        state["config"] = torch.tensor(list(text), dtype=torch.uint8)
        state["count"] = torch.tensor([self.count, self.count2], dtype=torch.float64)
        return state

    @classmethod
    def restore(
        cls, state: Mapping[str, Tensor], device: torch.device | str = "cpu"
    ) -> Accumulator:
        """The accumulator that :meth:`state` was taken of; continuing gives the same bits."""
        if "config" not in state or "count" not in state:
            raise GramianError("not the state of an accumulator: no 'config' or no 'count' in it")
        config = json.loads(bytes(state["config"].tolist()))
        config["pairs"] = [Pair(*pair) for pair in config["pairs"]]
        result = cls(**config, device=device)
        for name, tensor in result._tensors().items():
            if name not in state or state[name].shape != tensor.shape:
                raise GramianError(f"state of an accumulator: {name!r} is missing or misshapen")
            tensor.copy_(state[name])
        result.count, result.count2 = state["count"].tolist()
        return result

    def __add__(self, other: Accumulator) -> Accumulator:
        if not isinstance(other, Accumulator):
            return NotImplemented
        if self._config() != other._config():
            raise GramianError("accumulators of different sites, pairs or precision do not add")
        result, right = (
            type(self).restore(one.state(copy=False), self.device) for one in (self, other)
        )
        if self.count == 0 or other.count == 0:
            return right if self.count == 0 else result
        for name, stream in result._streams.items():
            right._move(name, stream.shift)
        for name, stream in result._streams.items():
            stream.add(right._streams[name])
        for pair, sums in result._pairs.items():
            sums.add(right._pairs[pair])
        result.count += right.count
        result.count2 += right.count2
        return result
