"""How large a network on paper is, before a single weight is computed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gramian.networks.checkpoint import state
from gramian.networks.draft import Draft
from gramian.networks.structures import structured, structures_of


@dataclass(frozen=True)
class Sizes:
    """What a network stores, and what it remembers of every token it has read."""

    parameters: int
    """Numbers in its tensors, tied ones once."""
    bytes: int
    """Of these, in one dtype."""
    kv_bytes_per_token: int
    """Keys and values of all layers, in the same dtype."""


def sizes(draft: Draft, dtype: torch.dtype) -> Sizes:
    """The sizes of a draft when it is written in ``dtype``."""
    model = structured(type(draft.empty), draft.config)
    parameters = sum(tensor.numel() for tensor in state(model).values())
    table = structures_of(draft.config)
    cached = sum(
        sum(table.get(tap.path, {}).get("ranks", (tap.width,)))
        for layer in draft.blueprint.layers
        for tap in (layer.taps.get("k"), layer.taps.get("v"))
        if tap is not None
    )
    return Sizes(parameters, parameters * dtype.itemsize, cached * dtype.itemsize)
