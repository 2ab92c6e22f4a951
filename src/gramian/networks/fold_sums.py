"""The statistics of one fold of one network while its batches stream by."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from gramian.data import Batch
from gramian.moments import NonFiniteRows, Recipe
from gramian.networks.capture import capture
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Needs
from gramian.networks.rows import sink_rows
from gramian.networks.settings import Settings
from gramian.networks.sums import Sums, located


class FoldSums(Sums):
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
        widths = {site: blueprint.site_width(site) for site in self.orders}
        super().__init__(
            widths, group.pairs(blueprint), settings, checkpoint.device, orders=self.orders
        )

    def stores(self, site: str) -> bool:
        return self.orders[site] == self.kept_orders[site]

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
        except NonFiniteRows as error:
            raise located(error, batch, error.row) from None
        if len(apart):
            try:
                self.apart.update({site: x[apart.to(x.device)].cpu() for site, x in rows.items()})
            except NonFiniteRows as error:
                raise located(error, batch, int(apart[error.row])) from None
        self.rows += int(keep.sum())
        self.sinks += len(apart)
        places = keep.nonzero()[:, 0]
        self.keep_rows(batch, places, rows, places)
