"""Layer after layer over all batches, with the rows between them on disk."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gramian.data import Batch, Packing
from gramian.networks.between import between
from gramian.networks.blocks import Blocks
from gramian.networks.capture import row_norms
from gramian.networks.carry import Carry, layer_of
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.derived import derived_sites
from gramian.networks.fold_sums import FoldSums
from gramian.networks.needs import Needs
from gramian.networks.passes import Passes
from gramian.networks.rows import sink_rows
from gramian.networks.run import Run
from gramian.networks.sites import BETWEEN, parse
from gramian.networks.spool import Spool

TOKENS = "tokens"
"""Name, in the spool, of ids, masks, documents and offsets."""


def norm_of(site: str) -> str:
    """Name, in the spool, of the norms of a residual site."""
    return f"norm {site}"


@dataclass
class LayerByLayer:
    """First every layer runs over all batches; then the statistics are taken of the rows that it
    left on disk, a group of needs at a time.

    Which rows are sinks is known only when the last layer has run, so no statistics are taken
    before. Sites whose rows do not fit the disk are made again from the layer's kept input.
    """

    checkpoint: Checkpoint
    passes: Passes
    run: Run[Needs, FoldSums]
    spool: Spool
    slots: Sequence[Slot]

    def __post_init__(self) -> None:
        assert self.passes.carry is not None
        self.carry: Carry = self.passes.carry
        self.blueprint = self.checkpoint.blueprint
        self.residual = self.blueprint.residual_sites()
        self.derived = derived_sites(self.blueprint, self.spool.columns)
        self._blocks: Blocks | None = None

    @property
    def blocks(self) -> Blocks:
        if self._blocks is None:
            self._blocks = Blocks.of(self.checkpoint.model, self.blueprint, self.batch(0).ids)
        return self._blocks

    def all_passes(self) -> None:
        """Go on from where the journal is; rows that a lost machine left are made again."""
        journal = self.run.journal
        begun = journal.pass_number if journal.trusted else 0
        for step in range(begun, self.blueprint.depth + 1):
            going_on = journal.trusted and step == journal.pass_number
            self.one_layer(step - 1, journal.batch_number if going_on else 0)
            if journal.pass_number <= step:
                journal.save(step + 1, 0, None, self.run.done, self.run.counts, {})
        self.run.all_groups(self)
        self.spool.remove()

    def one_layer(self, layer: int, start: int) -> None:
        """Run one layer over all batches (-1: what comes before the first one)."""
        sites = self.inside(layer) if self.carry.what == "rows" or layer < 0 else []
        if layer < 0:
            self._sweep(layer, start, sites)
        else:
            with self.blocks.resident(layer):
                self._sweep(layer, start, sites)

    def _sweep(self, layer: int, start: int, sites: list[str]) -> None:
        end = self.residual[layer + 1]
        for index in range(start, len(self.slots)):
            batch = self.batch(index)
            if layer < 0:
                rows, state = self.blocks.start(batch.ids, batch.mask, sites)
            else:
                entering = self.state(layer, batch, index)
                rows, state = self.blocks.run(layer, entering, batch.mask, sites)
            for site in sites:
                self.spool.write(site, index, rows[site])
            self.spool.write(end, index, state)
            self.spool.write(norm_of(end), index, row_norms(state)[..., None])
            if self.run.journal.pass_number <= layer + 1:
                self.run.advance(batch, layer + 1, index + 1, None, None)
            else:  # counted before the machine was lost
                self.run.report()

    def inside(self, layer: int) -> list[str]:
        """Wanted sites that are seen while a layer runs, beside the stream at its two ends."""
        needs = Needs.of(need for group in self.passes.groups for need in group)
        wanted = needs.orders(self.blueprint)
        return [
            site
            for site in wanted
            if site in self.spool
            and site not in self.residual
            and layer_of(self.blueprint, site) == layer
        ]

    def state(self, layer: int, batch: Batch, index: int) -> Tensor:
        """The stream (batch, length, width) as it enters a layer."""
        return self.spool.read(self.residual[layer], index).view(*batch.mask.shape, -1)

    def batch(self, index: int) -> Batch:
        """A batch with its tensors."""
        slot = self.slots[index]
        packed = self.spool.read(TOKENS, index).long().view(*slot.shape, 4)
        ids, mask, document, offset = (x.contiguous() for x in packed.unbind(-1))
        return Batch(ids, mask.bool(), slot.fold, document, offset, slot.digests)

    def batches(self, start: int) -> Iterator[Batch]:
        """All batches from one on."""
        for index in range(start, len(self.slots)):
            yield self.batch(index)

    def add(self, sums: FoldSums, batch: Batch, index: int) -> None:
        """Add the rows of one batch, from disk or from their layer."""
        norms = torch.stack(
            [self.spool.read(norm_of(site), index).view(batch.mask.shape) for site in self.residual]
        )
        sinks = sink_rows(batch.mask, norms, sums.recipe.rows, self.blueprint)
        rows = {site: self.spool.read(site, index) for site in sums.orders if site in self.spool}
        rows |= self.norms(sums.orders, rows, index, batch)
        if made := compared(sums.orders):
            pairs = between([self.spool.read(site, index) for site in self.residual])
            rows |= {site: pairs[parse(site).kind] for site in made}
        missing = [site for site in sums.orders if site not in rows]
        for layer in sorted({layer_of(self.blueprint, site) or 0 for site in missing}):
            sites = [site for site in missing if layer_of(self.blueprint, site) == layer]
            state = self.state(layer, batch, index)
            rows |= self.blocks.run(layer, state, batch.mask, sites)[0]
        sums.add(batch, rows, sinks)

    def norms(
        self, sites: Collection[str], rows: Mapping[str, Tensor], index: int, batch: Batch
    ) -> dict[str, Tensor]:
        """Rows of the sites that are a norm of rows on disk."""
        found: dict[str, Tensor] = {}
        for site in sites:
            if site in self.derived:
                derived = self.derived[site]
                terms = {
                    term: rows[term] if term in rows else self.spool.read(term, index)
                    for term in derived.terms
                }
                shaped = {term: x.view(*batch.mask.shape, -1) for term, x in terms.items()}
                found[site] = derived.rows(self.checkpoint.model, shaped)
        return found

    def done(self, number: int) -> None:
        """Remove the rows that no later group reads."""
        later = Needs.of(need for group in self.passes.groups[number + 1 :] for need in group)
        wanted = set(later.orders(self.blueprint))
        wanted |= {term for site in wanted & {*self.derived} for term in self.derived[site].terms}
        again = {
            layer_of(self.blueprint, site)
            for site in wanted
            if site not in self.spool and site not in self.derived
        }
        wanted |= {self.residual[layer] for layer in again if layer is not None and layer >= 0}
        if compared(wanted):
            wanted |= set(self.residual)
        for site in self.spool.columns:
            if site != TOKENS and not site.startswith("norm ") and site not in wanted:
                self.spool.drop(site)


def compared(sites: Iterable[str]) -> list[str]:
    """The sites that are made of the stream at all depths."""
    return [site for site in sites if parse(site).kind in BETWEEN]


def layer_by_layer(
    run: Run[Needs, FoldSums],
    checkpoint: Checkpoint,
    passes: Passes,
    packing: Packing,
    slots: Sequence[Slot],
    folder: Path,
) -> None:
    """Collect with the rows between layers in ``folder``, which is gone afterwards.

    Raises
    ------
    GramianError : the disk is too small, layers cannot be run one by one, rows are not finite.
    """
    run.first = checkpoint.blueprint.depth + 1
    if run.journal.pass_number >= run.first + len(run.groups):
        shutil.rmtree(folder, ignore_errors=True)
        return
    assert passes.carry is not None
    spool = spool_for(folder, checkpoint, passes.carry, packing, slots)
    LayerByLayer(checkpoint, passes, run, spool, slots).all_passes()


@dataclass(frozen=True)
class Slot:
    """A batch without its tensors."""

    fold: str
    shape: tuple[int, int]
    digests: tuple[str, ...]
    tokens: int

    @classmethod
    def of(cls, batch: Batch) -> Slot:
        windows, length = batch.ids.shape
        return cls(batch.fold, (windows, length), batch.digests, batch.tokens)


def spool_for(
    folder: Path, checkpoint: Checkpoint, carry: Carry, packing: Packing, slots: Sequence[Slot]
) -> Spool:
    """A spool with room for everything, in which the tokens of every batch lie already.

    Raises
    ------
    GramianError : the disk is too small.
    """
    blueprint = checkpoint.blueprint
    residual = blueprint.residual_sites()
    sites = dict.fromkeys((*residual, *carry.kept))
    columns = {TOKENS: 4, **{site: blueprint.site_width(site) for site in sites}}
    columns |= {norm_of(site): 1 for site in residual}
    dtypes = {TOKENS: torch.int32} | {norm_of(site): torch.float32 for site in residual}
    rows = [slot.shape[0] * slot.shape[1] for slot in slots]
    spool = Spool(folder, rows, columns, checkpoint.dtype, dtypes)
    for index, batch in enumerate(packing.batches()):
        place = (batch.ids, batch.mask.long(), batch.document, batch.offset)
        spool.write(TOKENS, index, torch.stack(place, -1).int())
    return spool
