"""Tiny checkpoints, moments of their neurons and heads, and the rows behind these."""

from __future__ import annotations

import torch

from gramian.compress import heads, mlp
from gramian.data import Packing, documents
from gramian.networks import capture, collect
from gramian.networks import open as open_checkpoint
from tests import tiny

PACKED = {"tokens": 4000, "length": 32}


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


def moments_of(checkpoint, job=None, **changes):
    needs = job.needs(checkpoint) if job else mlp.needs(checkpoint) + heads.needs(checkpoint)
    settings = {**PACKED, "batch_rows": 256, "precision": "float64", **changes}
    return collect(checkpoint, documents(tiny.texts(300)), needs, **settings)


def rows_of(checkpoint, site, fold="report", **changes):
    """All rows (n, d) of a site in a fold, sink rows among them, of the same text."""
    found = []
    docs = documents(tiny.texts(300))
    for batch in Packing(docs, checkpoint.tokenizer, rows=256, **{**PACKED, **changes}):
        if batch.fold == fold:
            seen = capture(checkpoint.model, checkpoint.blueprint, [site], batch.ids, batch.mask)
            found.append(seen.rows[site][batch.mask].double())
    return torch.cat(found)


def module_of(checkpoint, matrix):
    return checkpoint.model.get_submodule(matrix.weight.rpartition(".")[0]).double()


def errors_of(plan):
    return [layer["error_report"] for layer in plan.evidence["layers"]]
