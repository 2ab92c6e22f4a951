"""The statistics of one fold of a joint collection while its batches stream by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gramian.data import Batch, PairedBatch
from gramian.moments import Accumulator, NonFiniteRows, Pair, Recipe, RowRule, SinkRows
from gramian.networks.capture import capture
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.paired_needs import A, B
from gramian.networks.rows import sink_rows
from gramian.networks.settings import Settings
from gramian.networks.sums import Sums, located


class PairedSums(Sums):
    """Sums over the paired rows of two networks at the sites of one pass."""

    def __init__(
        self,
        networks: tuple[Checkpoint, Checkpoint],
        widths: Mapping[str, int],
        pairs: Sequence[Pair],
        recipe: Recipe,
        settings: Settings,
    ) -> None:
        assert recipe.partner is not None
        self.networks = networks
        self.rules: tuple[RowRule, RowRule] = (recipe.rows, recipe.partner.rows)
        self.pooled = recipe.partner.align == "documents"
        present = {site for pair in pairs for site in pair[:2]}
        super().__init__(
            {site: d for site, d in widths.items() if site in present},
            pairs,
            settings,
            networks[0].device,
        )

    def update(self, batch: PairedBatch) -> None:
        """Run both networks over one batch and add its paired rows.

        Raises
        ------
        GramianError : an activation is not finite; names the site, document and offset.
        """
        left, left_sinks = self._seen(0, A, batch.a)
        right, right_sinks = self._seen(1, B, batch.b)
        if self.pooled:
            self._update_pooled(batch, (left, left_sinks), (right, right_sinks))
            return
        apart = left_sinks.reshape(-1)[batch.left] | right_sinks.reshape(-1)[batch.right]
        places = torch.stack([batch.left, batch.right])
        self._add(batch, left | right, places[:, ~apart], self.kept)
        self._add(batch, left | right, places[:, apart], self.apart)
        self.rows += int((~apart).sum())
        self.sinks += int(apart.sum())

    def _seen(self, which: int, prefix: str, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """Rows (batch, length, d) by site, and which tokens are sinks, of one network."""
        network = self.networks[which]
        sites = [site.removeprefix(prefix) for site in self.widths if site.startswith(prefix)]
        seen = capture(network.model, network.blueprint, sites, batch.ids, batch.mask, norms=True)
        sinks = sink_rows(batch.mask, seen.norms, self.rules[which], network.blueprint)
        return {prefix + site: rows for site, rows in seen.rows.items()}, sinks

    def _add(
        self,
        batch: PairedBatch,
        seen: Mapping[str, Tensor],
        places: Tensor,
        sums: Accumulator | SinkRows,
    ) -> None:
        """Add the rows at flat places (2, k), those of ``a`` and those of ``b``."""
        if places.shape[1] == 0:
            return
        rows = {}
        for site, x in seen.items():
            index = places[0 if site.startswith(A) else 1].to(x.device)
            rows[site] = x.reshape(-1, x.shape[-1])[index]
            if sums is self.apart:
                rows[site] = rows[site].cpu()
        try:
            sums.update(rows)
        except NonFiniteRows as error:
            side = batch.a if error.site.startswith(A) else batch.b
            raise located(
                error, side, int(places[0 if side is batch.a else 1][error.row])
            ) from None
        if sums is self.kept:
            self.keep_rows(batch.a, places[0], rows, torch.arange(places.shape[1]))

    def _update_pooled(
        self,
        batch: PairedBatch,
        a: tuple[Mapping[str, Tensor], Tensor],
        b: tuple[Mapping[str, Tensor], Tensor],
    ) -> None:
        """Add one row per document: the mean over its tokens that are no sinks."""
        kept = (batch.a.mask & ~a[1], batch.b.mask & ~b[1])
        whole = kept[0].any(1) & kept[1].any(1)
        if not bool(whole.any()):
            return
        rows = {}
        for (seen, _), mask in zip((a, b), kept, strict=True):
            for site, x in seen.items():
                weight = mask[whole].to(x.device, torch.float64)
                chosen = x[whole.to(x.device)].to(torch.float64)
                # Padding may hold anything: it is left out, not multiplied by zero.
                chosen = torch.where(weight[..., None] > 0, chosen, 0.0)
                rows[site] = chosen.sum(1) / weight.sum(1, keepdim=True)
        try:
            self.kept.update(rows)
        except NonFiniteRows as error:
            side = batch.a if error.site.startswith(A) else batch.b
            window = int(whole.nonzero()[error.row])
            first = int(side.mask[window].nonzero()[-1]) + window * side.ids.shape[1]
            raise located(error, side, first) from None
        count = int(whole.sum())
        for site, reservoir in self.reservoirs.items():
            windows = batch.a.document[whole].max(1).values
            keys = [(batch.a.digests[int(i)], 0) for i in windows]
            reservoir.update(keys, rows[site].to("cpu", torch.float32))
        self.rows += count
