"""Rows that need not lie on disk: what matrices read is the norm of streams that do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gramian.networks.blueprint import Blueprint


@dataclass(frozen=True)
class Derived:
    """A site whose rows are ``norm(sum of the rows of other sites)``, to the bit."""

    site: str
    norm: str
    """Path of the norm's module."""
    terms: tuple[str, ...]
    """``resid_pre``; of an MLP behind an attention also ``attn_out``."""

    def rows(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """The rows (..., width) from those of the terms."""
        first, *rest = (rows[term] for term in self.terms)
        for term in rest:  # in the network's own order of addition
            first = first + term
        with torch.no_grad():
            found: Tensor = model.get_submodule(self.norm)(first)
        return found


def derived_sites(blueprint: Blueprint, kept: Collection[str]) -> dict[str, Derived]:
    """Which inputs of branches follow from kept rows, by site.

    Only where a norm before the branch reads the stream itself: the input of an attention, or of
    an MLP beside one or behind one whose output is kept.
    """
    found: dict[str, Derived] = {}
    prefix = blueprint.main.prefix
    for layer in blueprint.layers:
        pre, added = (f"{prefix}{layer.index}.{site}" for site in ("resid_pre", "attn_out"))
        behind = (pre,) if layer.parallel else (pre, added)
        sums = {"attn_in": (pre,), "mlp_in": behind}
        branches = [name for name in layer.taps if name.endswith("_out")]
        if branches != ["attn_out", "mlp_out"]:
            continue
        for name, terms in sums.items():
            norm, tap = layer.norms.get(name.removesuffix("_in")), layer.taps[name]
            if layer.parallel and norm is None:  # one norm for both
                norm = layer.norms.get("attn")
            if (
                norm is None
                or norm.place != "before"
                or (tap.path, tap.side)
                != (
                    norm.path,
                    "output",
                )
            ):
                continue
            if all(term in kept and blueprint.tap(term).scale == 1.0 for term in terms):
                site = f"{prefix}{layer.index}.{name}"
                found[site] = Derived(site, norm.path, terms)
    return found
