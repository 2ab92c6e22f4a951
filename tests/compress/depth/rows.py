"""The rows behind a set of moments, taken again from the network."""

from __future__ import annotations

import torch

from gramian.data import documents
from gramian.networks import capture
from gramian.networks.collect import batches
from gramian.networks.rows import sink_rows
from tests import tiny
from tests.compress.depth.conftest import SETTINGS


def rows_at(checkpoint, moments, sites, folds, *, sinks=None):
    """Site -> (n, d) float64: kept rows, or with ``sinks`` the sink rows, or (None) both."""
    found = {site: [] for site in sites}
    for batch in batches(checkpoint, documents(tiny.texts(300)), **SETTINGS):
        if batch.fold not in folds:
            continue
        seen = capture(
            checkpoint.model, checkpoint.blueprint, sites, batch.ids, batch.mask, norms=True
        )
        apart = sink_rows(batch.mask, seen.norms, moments.recipe.rows, checkpoint.blueprint)
        wanted = batch.mask if sinks is None else apart if sinks else batch.mask & ~apart
        for site in sites:
            found[site].append(seen.rows[site][wanted].double())
    return {site: torch.cat(parts) for site, parts in found.items()}
