"""The statistics of one fold of any collection: rows, sink rows, and reservoirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gramian.data import Batch
from gramian.errors import GramianError
from gramian.moments import (
    Accumulator,
    MomentSetWriter,
    NonFiniteRows,
    Pair,
    Reservoir,
    SinkRows,
)
from gramian.networks.settings import Settings


class Sums:
    """Sums over the rows of one fold at the sites of one pass.

    Whoever streams adds rows to ``kept`` and ``apart`` and counts them; clearing, storing and
    interrupting are the same for all.
    """

    def __init__(
        self,
        widths: Mapping[str, int],
        pairs: Sequence[Pair],
        settings: Settings,
        device: str,
        orders: Mapping[str, str] | None = None,
    ) -> None:
        self.widths, self.pairs = dict(widths), tuple(pairs)
        self.settings, self.device, self._orders = settings, device, orders
        self.kept = Accumulator(
            self.widths, self.pairs, orders=orders, precision=settings.precision, device=device
        )
        self.clear()

    def clear(self) -> None:
        """Start the next fold, in the same memory."""
        self.kept.clear()
        self.apart = SinkRows(
            self.widths,
            self.pairs,
            orders=self._orders,
            precision=self.settings.precision,
            capacity=self.settings.sink_rows,
        )
        self.reservoirs = {
            site: Reservoir(self.settings.reservoir, width)
            for site, width in self.widths.items()
            if self.settings.reservoir
        }
        self.rows = 0
        self.sinks = 0

    def stores(self, site: str) -> bool:
        """Whether this pass is the one that stores a site."""
        return True

    def store(self, writer: MomentSetWriter, fold: str) -> None:
        """Hand the finished fold to the writer; a site that an earlier pass wrote is not again."""
        # A site and then the pairs it is the source of: its moments are worked out once.
        for site in self.widths:
            if self.stores(site) and not writer.has_site(site, fold):
                writer.put_site(site, fold, self.kept.moments(site), sinks=self.apart.block(site))
            for pair in self.pairs:
                if pair.x == site:
                    joint, sinks = self.kept.joint(pair), self.apart.dense_joint(pair)
                    writer.put_pair(pair, fold, joint, sinks=sinks)
        for site, reservoir in self.reservoirs.items():
            writer.put_reservoir(site, fold, reservoir)

    def state(self) -> dict[str, Tensor]:
        """Everything as tensors, for :meth:`restore`."""
        parts: dict[str, Mapping[str, Tensor]] = {
            "kept": self.kept.state(copy=False),
            "apart": self.apart.state(),
            **{f"reservoir {site}": r.state() for site, r in self.reservoirs.items()},
        }
        state = {f"{part}|{name}": t for part, held in parts.items() for name, t in held.items()}
        state["counts"] = torch.tensor([self.rows, self.sinks])
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up the sums that :meth:`state` was taken of."""

        def part(name: str) -> dict[str, Tensor]:
            prefix = f"{name}|"
            return {k.removeprefix(prefix): t for k, t in state.items() if k.startswith(prefix)}

        self.kept = Accumulator.restore(part("kept"), device=self.device)
        self.apart = SinkRows.restore(part("apart"))
        self.reservoirs = {s: Reservoir.restore(part(f"reservoir {s}")) for s in self.reservoirs}
        self.rows, self.sinks = (int(n) for n in state["counts"])

    def keep_rows(
        self, batch: Batch, places: Tensor, rows: Mapping[str, Tensor], index: Tensor
    ) -> None:
        """Offer the indexed rows to the reservoirs; ``places`` (n,) are theirs in the batch.
        Positions that belong to no document have no key, and are not kept."""
        if not self.reservoirs:
            return
        document, offset = (x.reshape(-1)[places] for x in (batch.document, batch.offset))
        real = (document >= 0).nonzero()[:, 0]
        keys = [(batch.digests[int(document[i])], int(offset[i])) for i in real]
        for site, reservoir in self.reservoirs.items():
            reservoir.update(keys, rows[site][index[real].to(rows[site].device)].cpu())


def located(error: NonFiniteRows, batch: Batch, place: int) -> GramianError:
    """The error with the document, offset and position of a flat place in the batch."""
    document = int(batch.document.reshape(-1)[place])
    where = (
        "the token before the text"
        if document < 0
        else f"document {batch.digests[document][:12]} at offset "
        f"{int(batch.offset.reshape(-1)[place])}"
    )
    return GramianError(
        f"the activation at site {error.site} is not finite for {where} (position "
        f"{place % batch.ids.shape[1]} of its window, fold {batch.fold}); run the model in float32 "
        "or bfloat16, or leave that document out; if it is every document, check the weights"
    )
