"""The statistics of one fold while its batches stream by: rows, sink rows, and a reservoir."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gramian.data import Batch
from gramian.errors import GramianError
from gramian.moments import (
    Accumulator,
    MomentSetWriter,
    NonFiniteRows,
    Recipe,
    Reservoir,
    SinkRows,
)
from gramian.networks.capture import capture
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Needs
from gramian.networks.rows import sink_rows
from gramian.networks.settings import Settings


class FoldSums:
    """Sums over the rows of one fold at the sites of one pass.

    ``orders`` are those of all passes together: a site that is only a target here and a source
    in another pass is stored by that one.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        group: Needs,
        orders: Mapping[str, str],
        recipe: Recipe,
        settings: Settings,
    ) -> None:
        self.checkpoint, self.recipe, self.kept_orders = checkpoint, recipe, orders
        blueprint = checkpoint.blueprint
        self.orders = group.orders(blueprint)
        self.pairs = group.pairs(blueprint)
        self.settings = settings
        self.widths = {site: blueprint.site_width(site) for site in self.orders}
        self.kept = Accumulator(
            self.widths,
            self.pairs,
            orders=self.orders,
            precision=settings.precision,
            device=checkpoint.device,
        )
        self.clear()

    def clear(self) -> None:
        """Start the next fold, in the same memory."""
        self.kept.clear()
        self.apart = SinkRows(
            self.widths,
            self.pairs,
            orders=self.orders,
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

    def update(self, batch: Batch) -> None:
        """Run the network over one batch and add its rows.

        Raises
        ------
        GramianError : an activation is not finite; names the site, document and offset.
        """
        blueprint = self.checkpoint.blueprint
        captured = capture(
            self.checkpoint.model, blueprint, self.orders, batch.ids, batch.mask, norms=True
        )
        sinks = sink_rows(batch.mask, captured.norms, self.recipe.rows, blueprint)
        self.add(batch, captured.rows, sinks)

    def add(self, batch: Batch, seen: Mapping[str, Tensor], sinks: Tensor) -> None:
        """Add the rows of one batch: ``seen[site]`` is (..., width), ``sinks`` (batch, length) is
        True at sink rows.

        Raises
        ------
        GramianError : as for :meth:`update`.
        """
        keep = (batch.mask & ~sinks).reshape(-1)
        apart = sinks.reshape(-1).nonzero()[:, 0]
        rows = {site: seen[site].reshape(-1, seen[site].shape[-1]) for site in self.orders}
        try:
            self.kept.update(rows, weight=keep.double())
            if len(apart):
                chosen = {site: x[apart.to(x.device)].cpu() for site, x in rows.items()}
                self.add_sinks(chosen, apart)
        except NonFiniteRows as error:
            raise self._located(error, batch) from None
        self.rows += int(keep.sum())
        self.sinks += len(apart)
        for site, reservoir in self.reservoirs.items():
            where = keep.nonzero()[:, 0]
            keys = [
                (batch.digests[int(d)], int(o))
                for d, o in zip(
                    batch.document.reshape(-1)[where], batch.offset.reshape(-1)[where], strict=True
                )
                if d >= 0
            ]
            real = where[batch.document.reshape(-1)[where] >= 0]
            reservoir.update(keys, rows[site][real.to(rows[site].device)].cpu())

    def add_sinks(self, rows: Mapping[str, Tensor], where: Tensor) -> None:
        """Add sink rows; ``where`` are their places in the batch, for messages."""
        try:
            self.apart.update(rows)
        except NonFiniteRows as error:
            raise NonFiniteRows(error.site, int(where[error.row]), error.reason) from None

    def store(self, writer: MomentSetWriter, fold: str) -> None:
        """Hand the finished fold to the writer."""
        # A site and then the pairs it is the source of: its moments are worked out once.
        for site, order in self.orders.items():
            if order == self.kept_orders[site]:
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
        state = {
            f"{part}|{name}": t for part, tensors in parts.items() for name, t in tensors.items()
        }
        state["counts"] = torch.tensor([self.rows, self.sinks])
        return state

    @classmethod
    def restore(
        cls,
        checkpoint: Checkpoint,
        group: Needs,
        orders: Mapping[str, str],
        recipe: Recipe,
        settings: Settings,
        state: Mapping[str, Tensor],
    ) -> FoldSums:
        """The sums that :meth:`state` was taken of."""
        sums = cls(checkpoint, group, orders, recipe, settings)

        def part(name: str) -> dict[str, Tensor]:
            prefix = f"{name}|"
            return {k.removeprefix(prefix): t for k, t in state.items() if k.startswith(prefix)}

        sums.kept = Accumulator.restore(part("kept"), device=checkpoint.device)
        sums.apart = SinkRows.restore(part("apart"))
        sums.reservoirs = {s: Reservoir.restore(part(f"reservoir {s}")) for s in sums.reservoirs}
        sums.rows, sums.sinks = (int(n) for n in state["counts"])
        return sums

    def _located(self, error: NonFiniteRows, batch: Batch) -> GramianError:
        row = error.row
        length = batch.ids.shape[1]
        document = int(batch.document.reshape(-1)[row])
        where = (
            "the token before the text"
            if document < 0
            else (
                f"document {batch.digests[document][:12]} at offset "
                f"{int(batch.offset.reshape(-1)[row])}"
            )
        )
        return GramianError(
            f"the activation at site {error.site} is not finite for {where} (position "
            f"{row % length} of its window, fold {batch.fold}); run the model in float32 or "
            "bfloat16, or leave that document out; if it is every document, check the weights"
        )
