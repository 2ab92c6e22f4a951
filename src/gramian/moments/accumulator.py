"""Streaming second moments of several sites and pairs over the same rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments, NonFiniteRows, check_order, float64_weight
from gramian.moments.products import as_rows, full_precision
from gramian.moments.running import Pair, Running

__all__ = ["Accumulator", "Pair"]

BLOCK = 4096
"""Rows in one product; more rows in one batch are taken in blocks of this many."""

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


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
        self._sums: Running | None = None

    @property
    def _running(self) -> Running:
        """The sums, which take no memory before the first row."""
        if self._sums is None:
            dtype = _DTYPES[self.precision]
            self._sums = Running(self.sites, self.pairs, self.orders, dtype, self.device)
        return self._sums

    @property
    def count(self) -> float:
        """``sum w`` so far; the number of rows when they carry no weight."""
        return 0.0 if self._sums is None else self._sums.count

    def clear(self) -> None:
        """Forget all rows but keep the memory, for the next stream of the same sites."""
        if self._sums is not None:
            self._sums.clear()

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
            batch = self.checked(rows)
            if not batch:
                return
            n = len(next(iter(batch.values())))
            w = float64_weight(weight, next(iter(batch.values())))
            index: Tensor | None = None
            if w is not None and bool((w == 0).any()):
                index = w.nonzero()[:, 0]
                w, n = w[index], len(index)
            if w is not None and bool((w == 1).all()):
                w = None
            blocks = [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
            if len(blocks) > 1:
                self._check_finite(batch, index, blocks)
            for block in blocks:
                self._add(batch, index, w, block)

    def _add(
        self, batch: Mapping[str, Tensor], index: Tensor | None, w: Tensor | None, block: slice
    ) -> None:
        part = None if index is None else index[block]
        rows = {site: x[block] if part is None else x for site, x in batch.items()}
        weight = None if w is None else w[block]
        try:
            self._running.add(rows, part, weight, block.stop - block.start)
        except NonFiniteRows as error:
            row = block.start + error.row if part is None else int(part[error.row])
            raise NonFiniteRows(error.site, row, error.reason) from None

    def checked(self, rows: Mapping[str, Any]) -> dict[str, Tensor]:
        """The rows of every site as tensors on the device.

        Raises
        ------
        GramianError : a site is missing, or its rows have the wrong shape or no float dtype.
        """
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

    def _check_finite(
        self, batch: Mapping[str, Tensor], index: Tensor | None, blocks: Sequence[slice]
    ) -> None:
        for site, x in batch.items():
            for block in blocks:
                rows = x[block] if index is None else x[index[block].to(x.device)]
                norms = torch.linalg.vector_norm(rows.to(_DTYPES[self.precision]), dim=1)
                if not bool(torch.isfinite(norms).all()):
                    row = block.start + int((~torch.isfinite(norms)).nonzero()[0])
                    raise NonFiniteRows(site, row if index is None else int(index[row]))

    def moments(self, site: str) -> Moments:
        """Moments of all rows so far at one site."""
        if site not in self.sites:
            raise GramianError(f"unknown site {site!r}; the sites are {', '.join(self.sites)}")
        return self._running.moments(site)

    def joint(self, pair: Pair) -> JointMoments:
        """Joint moments of all rows so far of one pair."""
        pair = Pair(*pair)
        if pair not in self.pairs:
            known = ", ".join(map(str, self.pairs)) or "none"
            raise GramianError(f"unknown pair {pair}; the pairs are {known}")
        return self._running.joint(pair)

    @property
    def nbytes(self) -> int:
        """Bytes of the sums, without the buffers for one batch."""
        return sum(t.numel() * t.element_size() for t in self._running.tensors().values())

    def config(self) -> dict[str, Any]:
        """What two accumulators must agree in to be added."""
        return {
            "sites": self.sites,
            "pairs": [list(pair) for pair in self.pairs],
            "orders": self.orders,
            "precision": self.precision,
        }

    def state(self, *, copy: bool = True) -> dict[str, Tensor]:
        """Everything as tensors, for :meth:`restore`; with ``copy=False`` they stay live."""
        text = json.dumps(self.config()).encode()
        sums = self._sums
        tensors = {} if sums is None else sums.tensors()
        counts = (0.0, 0.0) if sums is None else (sums.count, sums.count2)
        state = {name: t.clone() if copy else t for name, t in tensors.items()}
        state["config"] = torch.tensor(list(text), dtype=torch.uint8)
        state["count"] = torch.tensor(counts, dtype=torch.float64)
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
        if len(state) == 2 and not bool(state["count"].any()):
            return result
        for name, tensor in result._running.tensors().items():
            if name not in state or state[name].shape != tensor.shape:
                raise GramianError(f"state of an accumulator: {name!r} is missing or misshapen")
            tensor.copy_(state[name])
        result._running.count, result._running.count2 = state["count"].tolist()
        return result

    def __add__(self, other: Accumulator) -> Accumulator:
        if not isinstance(other, Accumulator):
            return NotImplemented
        if self.config() != other.config():
            raise GramianError("accumulators of different sites, pairs or precision do not add")
        result, right = (
            type(self).restore(one.state(copy=False), self.device) for one in (self, other)
        )
        result._running.merge(right._running)
        return result
