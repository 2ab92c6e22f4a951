"""Sink rows, apart from all others: as they are while they are few, as moments when not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.accumulator import Accumulator, Pair
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments, float64_rows


class SinkRows:
    """The rows of attention sinks at several sites: a thin factor, then dense moments.

    Up to ``capacity`` rows are kept per site as they are; statistics of a few hundred rows take
    far less room so. One row more and all of them go into an :class:`Accumulator`.

    sites, pairs, orders, precision, device : as of :class:`Accumulator`.
    """

    def __init__(
        self,
        sites: Mapping[str, int],
        pairs: Sequence[Pair] = (),
        *,
        capacity: int = 512,
        orders: Mapping[str, str] | None = None,
        precision: str = "float32",
        device: torch.device | str = "cpu",
    ) -> None:
        if capacity < 0:
            raise GramianError(f"capacity is {capacity}, expected at least 0")
        self._dense = Accumulator(sites, pairs, orders=orders, precision=precision, device=device)
        self.capacity = capacity
        self._rows = {site: self._none(d) for site, d in self._dense.sites.items()}

    def _none(self, d: int) -> Tensor:
        dtype = getattr(torch, self._dense.precision)
        return torch.empty(0, d, dtype=dtype, device=self._dense.device)

    @property
    def sites(self) -> dict[str, int]:
        """Name to width."""
        return self._dense.sites

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs whose cross scatter is kept."""
        return self._dense.pairs

    @property
    def count(self) -> float:
        """Rows so far."""
        return self._dense.count + self._held

    @property
    def is_thin(self) -> bool:
        """Whether the rows themselves are still kept."""
        return self._dense.count == 0

    @property
    def _held(self) -> int:
        return len(next(iter(self._rows.values()))) if self._rows else 0

    def thin(self, site: str) -> Tensor | None:
        """The rows (n, d) of a site, aligned between sites; None once they went into moments."""
        self._check(site)
        return self._rows[site] if self.is_thin else None

    def update(self, rows: Mapping[str, Any]) -> None:
        """Add rows; ``rows[site]`` is (n, d), the same n at every site.

        Raises
        ------
        GramianError : as of :meth:`Accumulator.update`.
        """
        batch = self._dense.checked(rows)
        n = len(next(iter(batch.values()))) if batch else 0
        if n == 0:
            return
        if not self.is_thin or self._held + n > self.capacity:
            self._dense.update(batch)
            self._flush()
            return
        for site, x in batch.items():
            float64_rows(x, site)
        for site, x in batch.items():
            self._rows[site] = torch.cat([self._rows[site], x.to(self._rows[site].dtype)])

    def _flush(self) -> None:
        if self._held:
            self._dense.update(self._rows)
        self._rows = {site: self._none(d) for site, d in self.sites.items()}

    def _check(self, site: str) -> None:
        if site not in self.sites:
            raise GramianError(f"unknown site {site!r}; the sites are {', '.join(self.sites)}")

    def moments(self, site: str) -> Moments:
        """Moments of the sink rows at one site."""
        self._check(site)
        if not self.is_thin:
            return self._dense.moments(site)
        return Moments.from_rows(self._rows[site], order=self._dense.orders[site])

    def joint(self, pair: Pair) -> JointMoments:
        """Joint moments of the sink rows of one pair."""
        pair = Pair(*pair)
        if not self.is_thin or pair not in self.pairs:
            return self._dense.joint(pair)
        x, y = (self._rows[site].to(torch.float64) for site in pair[:2])
        if pair.increment:
            return JointMoments.from_rows(x, y - x, target="diagonal")
        orders = (self._dense.orders[pair.x], self._dense.orders[pair.y])
        return JointMoments.from_rows(x, y, source=orders[0], target=orders[1])

    def block(self, site: str) -> tuple[Moments | None, Tensor | None]:
        """What a writer stores of a site: dense moments or thin rows, None for what is not."""
        thin = self.thin(site)
        return (self._dense.moments(site), None) if thin is None else (None, thin)

    def dense_joint(self, pair: Pair) -> JointMoments | None:
        """Joint moments of the rows that are no longer kept as they are; None while they are."""
        return None if self.is_thin else self._dense.joint(pair)

    @property
    def nbytes(self) -> int:
        """Bytes that the statistics take at their largest."""
        return self._dense.nbytes

    def state(self) -> dict[str, Tensor]:
        """Everything as tensors, for :meth:`restore`."""
        names = list(self.sites)
        state = {f"rows {i}": self._rows[site] for i, site in enumerate(names)}
        text = json.dumps({"capacity": self.capacity}).encode()
        state["sinks"] = torch.tensor(list(text), dtype=torch.uint8)
        return state | {f"dense {name}": t for name, t in self._dense.state().items()}

    @classmethod
    def restore(cls, state: Mapping[str, Tensor], device: torch.device | str = "cpu") -> SinkRows:
        """What :meth:`state` was taken of; continuing gives the same bits."""
        if "sinks" not in state:
            raise GramianError("not the state of sink rows: no 'sinks' in it")
        dense = {n.removeprefix("dense "): t for n, t in state.items() if n.startswith("dense ")}
        inner = Accumulator.restore(dense, device)
        result = cls(inner.sites, capacity=json.loads(bytes(state["sinks"].tolist()))["capacity"])
        result._dense = inner
        result._rows = {
            site: state[f"rows {i}"].clone().to(device) for i, site in enumerate(inner.sites)
        }
        return result

    def __add__(self, other: SinkRows) -> SinkRows:
        if not isinstance(other, SinkRows):
            return NotImplemented
        if self._dense.config() != other._dense.config():
            raise GramianError("sink rows of different sites, pairs or precision do not add")
        result = type(self).restore(self.state(), self._dense.device)
        if not other.is_thin:
            result._flush()
            result._dense = result._dense + other._dense
        elif other._held:
            result.update(other._rows)
        return result
