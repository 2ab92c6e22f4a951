"""What lies on disk while layers run one after another, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from gramian.networks.blueprint import Blueprint
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.derived import derived_sites
from gramian.networks.needs import Need
from gramian.networks.sites import BETWEEN, parse


@dataclass(frozen=True)
class Carry:
    """Rows that are kept on disk until their statistics are complete."""

    what: Literal["rows", "inputs"]
    """``rows``: those of every wanted site, so that one forward pass is enough. ``inputs``: the
    residual stream alone; layers run a second time to give the rows inside them."""
    kept: tuple[str, ...]
    """Wanted sites whose rows lie on disk: all but those that are a norm of others."""
    row_bytes: int
    """For every token: those sites, and the stream between all layers."""
    bytes: int | None
    """For all tokens; None when their number is not known beforehand."""

    @property
    def forwards(self) -> int:
        return 1 if self.what == "rows" else 2

    def __str__(self) -> str:
        what = "rows" if self.what == "rows" else "inputs of layers"
        if self.bytes is None:
            return f"{self.row_bytes:,} bytes of {what} on disk for every token"
        return f"{self.bytes / 1e9:,.2f} GB of {what} on disk"


SIDE = 16
"""Bytes for every token beside rows and norms: id, mask, document and offset of the token."""


def carries(
    checkpoint: Checkpoint,
    needs: Iterable[Need],
    tokens: int | None,
    disk: int | None,
    what: Literal["auto", "rows", "inputs"] = "auto",
) -> tuple[Carry | None, str]:
    """What to keep on disk, or None and the reason why layers cannot run one by one.

    The rows of every wanted site where the disk holds them; else the residual stream alone.
    """
    blueprint = checkpoint.blueprint
    named = sorted({site for need in needs for site in (need.site, need.partner) if site})
    sites = [site for site in named if parse(site).kind not in BETWEEN]
    residual = blueprint.residual_sites()
    if len(blueprint.towers) > 1 or any(blueprint.tap(site).scale != 1.0 for site in residual):
        return None, f"the layers of a {blueprint.model_type} network do not run one by one"
    foreign = [site for site in sites if layer_of(blueprint, site) is None]
    if foreign:
        return None, f"{foreign[0]} is not in the tower whose layers would run one by one"
    inputs = [s for s in sites if s in residual or layer_of(blueprint, s) == -1]
    derived = derived_sites(blueprint, {*sites, *residual})
    rows = [site for site in sites if site not in derived]
    item = torch.empty(0, dtype=checkpoint.dtype).element_size()
    found = [
        _carry(blueprint, name, kept, item, tokens)
        for name, kept in _choices(rows, inputs)
        if what in ("auto", name)
    ]
    if tokens is None:
        return found[0], ""
    for carry in found:
        if disk is None or (carry.bytes or 0) <= disk:
            return carry, ""
    return None, (
        f"{found[-1].bytes or 0:,} bytes of hidden states do not fit the {disk or 0:,} bytes that "
        "are free on disk"
    )


def _choices(
    rows: Sequence[str], inputs: Sequence[str]
) -> tuple[tuple[Literal["rows", "inputs"], Sequence[str]], ...]:
    return (("rows", rows), ("inputs", inputs))


def _carry(
    blueprint: Blueprint,
    what: Literal["rows", "inputs"],
    kept: Iterable[str],
    item: int,
    tokens: int | None,
) -> Carry:
    kept = tuple(kept)
    residual = blueprint.residual_sites()
    row = item * sum(map(blueprint.site_width, {*kept, *residual}))
    row += SIDE + 4 * len(residual)
    return Carry(what, kept, row, None if tokens is None else tokens * row)


def layer_of(blueprint: Blueprint, site: str) -> int | None:
    """The layer that has to run for a site: -1 for what comes before the first one, the number of
    layers for what only needs the last one's end, None for a site of another tower."""
    residual = blueprint.residual_sites()
    prefix = residual[0].removesuffix("0.resid_pre")
    if site == residual[-1]:
        return blueprint.depth
    if not site.startswith(prefix):
        return None
    name = site.removeprefix(prefix)
    if name == "embed":
        return -1
    layer, _, _ = name.partition(".")
    return int(layer) if layer.isdigit() else None
