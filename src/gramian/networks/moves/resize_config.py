"""The configuration of a network with other widths."""

from __future__ import annotations

from typing import Any

from gramian.networks.draft import Draft
from gramian.networks.moves.resize_axes import Axes

_KEYS = ("num_key_value_heads", "num_kv_heads")


def resized_config(draft: Draft, axes: Axes) -> dict[str, Any]:
    """The entries that say the new widths."""
    config, plan = draft.config, draft.blueprint
    shape = axes.heads(0)
    width = len(axes.chosen) or plan.width
    heads = len(axes.queries[0]) if axes.queries else shape.count
    values: dict[str, Any] = {}
    known = plan.main.inner_key and "mlp_mid" in plan.layers[0].taps
    if known and (axes.neurons or axes.chosen):
        # GPT-2 without a number of neurons has four times its width of them.
        old = plan.layers[0].taps["mlp_mid"].width
        values[plan.main.inner_key] = len(axes.neurons[0]) if axes.neurons else old
    if axes.chosen:
        values["hidden_size"] = width
        if hasattr(config, "word_embed_proj_dim"):
            values["word_embed_proj_dim"] = width
    if axes.queries:
        values[plan.main.heads_key] = heads
        values |= {key: len(axes.keys[0]) for key in _KEYS if getattr(config, key, None)}
    if getattr(config, "head_dim", None) is not None or width != heads * shape.width:
        values["head_dim"] = shape.width
    return values
