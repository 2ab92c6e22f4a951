"""Tiny networks, their moments, the rows behind these, and what linears give on them."""

from __future__ import annotations

import torch

from gramian.compress import rank
from gramian.data import documents
from gramian.networks import capture, collect
from gramian.networks import open as open_checkpoint
from gramian.networks.collect import batches
from gramian.networks.rows import sink_rows
from tests import tiny

SETTINGS = {"tokens": 3000, "length": 32, "batch_rows": 256}


def opened(folder, family="llama", change=None, **shape):
    """A tiny checkpoint; ``change`` may rewrite its model first."""
    model = tiny.model(family, **shape)
    if change is not None:
        with torch.no_grad():
            change(model)
    model.save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    found = open_checkpoint(folder)
    # Some model types are read with a tokenizer class of their own, which knows no such words.
    found.__dict__["tokenizer"] = tiny.tokenizer()
    return found


def moments_of(checkpoint, needs=None, **changes):
    wanted = rank.needs(checkpoint) if needs is None else needs
    settings = {**SETTINGS, "precision": "float64", **changes}
    return collect(checkpoint, documents(tiny.texts(300)), wanted, **settings)


def rows_at(checkpoint, moments, sites, folds, *, sinks):
    """Site -> (n, d) float64 rows of these folds, the sink rows among them or not."""
    found = {site: [] for site in sites}
    for batch in batches(checkpoint, documents(tiny.texts(300)), **SETTINGS):
        if batch.fold in folds:
            seen = capture(
                checkpoint.model, checkpoint.blueprint, sites, batch.ids, batch.mask, norms=True
            )
            apart = sink_rows(batch.mask, seen.norms, moments.recipe.rows, checkpoint.blueprint)
            wanted = batch.mask if sinks else batch.mask & ~apart
            for site in sites:
                found[site].append(seen.rows[site][wanted].double())
    return {site: torch.cat(parts) for site, parts in found.items()}


def weights_of(plan):
    """Parameter name -> entry of the plan's document, one for each linear."""
    return dict(zip(plan.evidence["ranks"], plan.evidence["layers"], strict=True))
