"""Give a network another sequence of its own layers: tensors, configuration, structures."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint
from gramian.networks.checkpoint import skeleton, state
from gramian.networks.draft import Draft, Lazy
from gramian.networks.families import blueprint
from gramian.networks.structures import MARK, marked, structured, structures_of

_INDICES = ("mlp_only_layers", "moe_layers", "full_attention_layers", "cross_attention_layers")
"""Configuration entries that list the numbers of layers."""
_NOT_LAYERS = re.compile(r"token|architectures|id2label|label2id|axes|prompt|languages")
"""Configuration lists that are about something else, whatever their length."""
_BY_NUMBER = {
    "num_kv_shared_layers": "its last layers read keys and values of earlier ones",
    "scale_attn_by_inverse_layer_idx": "it divides attention by the number of the layer",
}
"""Configuration entries that make a layer depend on its number or on other layers."""


def arranged(draft: Draft, order: Sequence[int]) -> Draft:
    """The draft whose layer ``i`` is the present layer ``order[i]``.

    Raises
    ------
    GramianError : layers of this network depend on their numbers or on each other, so that they
        would not compute elsewhere what they compute here.
    """
    plan = draft.blueprint
    if list(order) == list(range(plan.depth)):
        return draft
    config = arranged_config(draft.config, plan, order)
    tensors: dict[str, Lazy] = {}
    for name, tensor in draft.tensors.items():
        for position, new in enumerate(renamed(name, plan, order)):
            tensors[new] = tensor if position == 0 else _copied(tensor)
    table = {
        new: structure
        for path, structure in structures_of(draft.config).items()
        for new in renamed(path, plan, order)
    }
    if table:
        setattr(config, MARK, marked(table)[MARK])
    empty = skeleton(config)
    whole = structured(type(empty), config) if table else empty
    _require_same_kinds(set(state(whole)), set(tensors), plan)
    origin = tuple(draft.origin[i] for i in order)
    return Draft(config, tensors, blueprint(config, empty), origin, empty)


def arranged_config(config: Any, plan: Blueprint, order: Sequence[int]) -> Any:
    """A configuration with the layers in another sequence; its per-layer lists follow."""
    new = copy.deepcopy(config)
    for key, value in config.to_dict().items():
        if key in _BY_NUMBER and value:
            raise GramianError(
                f"the layers of this {plan.model_type} network cannot be dropped or moved: "
                f"{_BY_NUMBER[key]} ({key} = {value})"
            )
        if not isinstance(value, (list, tuple)) or _NOT_LAYERS.search(key):
            continue
        if key in _INDICES:
            setattr(new, key, [i for i, old in enumerate(order) if old in value])
        elif len(value) == plan.depth:
            setattr(new, key, [value[i] for i in order])
    setattr(new, plan.depth_key, len(order))
    return new


def renamed(name: str, plan: Blueprint, order: Sequence[int]) -> list[str]:
    """The names that a tensor or module gets: none for a layer that goes, several for one that
    is repeated."""
    prefix = f"{plan.layers_path}."
    if not name.startswith(prefix):
        return [name]
    index, _, rest = name.removeprefix(prefix).partition(".")
    return [f"{prefix}{new}.{rest}" for new, old in enumerate(order) if old == int(index)]


def _require_same_kinds(expected: set[str], found: set[str], plan: Blueprint) -> None:
    """A layer whose kind follows from its number must not become one of another kind."""
    odd = sorted(expected ^ found)
    if odd:
        raise GramianError(
            f"the layers of this {plan.model_type} network differ by their numbers ({odd[0]} would "
            "not fit); choose an arrangement that keeps every kind of layer where the "
            "configuration expects it"
        )


def _copied(tensor: Lazy) -> Lazy:
    return lambda: tensor().clone()
