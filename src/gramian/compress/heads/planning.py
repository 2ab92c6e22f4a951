"""Plan fewer attention heads for every layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch

from gramian.compress.compression import Of, Treated, compression, share_of_layers
from gramian.compress.heads.choosing import allowed, choose
from gramian.compress.heads.needs import needs
from gramian.compress.narrowing import Narrowing
from gramian.compress.parameters import parameters_of
from gramian.errors import GramianError
from gramian.maps import Dense, LinearMap
from gramian.moments import MomentSet
from gramian.networks import Checkpoint, Plan, SelectHeads
from gramian.networks.attention_heads import AttentionHeads, attention_heads
from gramian.networks.draft import Draft

Selection = Literal["eliminate", "norm"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
"""How heads are chosen."""


def plan(
    checkpoint: Checkpoint,
    moments: MomentSet,
    *,
    keep: int | float,
    within: bool = False,
    of: Of = "layers",
    select: Selection = "eliminate",
    refit: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Fewer attention heads in every layer, the output matrix refitted to give what all gave.

    Whole groups go: query heads with the head of keys and values that they share, so that the
    key-value cache shrinks too. The result is an ordinary checkpoint that states its head width.
    Heads are chosen on ``train``, the strength of the refit on ``select``, and the predicted
    error of the attention's output is stated on ``report``, for the layer's old inputs.

    Parameters
    ----------
    keep : query heads (an integer), or a share of them (a float up to 1), to the nearest number
        that can be kept; with ``of="model"`` a share of all parameters.
    within : take as many query heads from every group instead, and leave keys and values.
    select : ``eliminate`` takes one after the other what the refitted output misses least,
        ``norm`` keeps what adds most to the output by itself.
    refit : False keeps the weights of the heads that stay, the naive counterpart.

    Raises
    ------
    GramianError : moments of another model or without the heads (collect with ``--for heads``),
        a number that cannot be kept, an architecture whose heads cannot go (GPT-2, OPT, OLMo 2).
    """
    if select not in SELECTIONS:
        raise GramianError(f"select is {select!r}, expected one of {', '.join(SELECTIONS)}")
    needs(checkpoint).require(checkpoint, moments, "heads")
    blueprint, config = checkpoint.blueprint, checkpoint.config
    shapes = [attention_heads(blueprint, config, layer.index) for layer in blueprint.layers]
    treated = sum(parameters_of(checkpoint, (*shape.readers, shape.writer)) for shape in shapes)
    model = parameters_of(checkpoint)
    number = allowed(
        shapes[0],
        within=within,
        keep=keep
        if isinstance(keep, int)
        else share_of_layers(keep, of, treated_parameters=treated, model_parameters=model),
    )
    _require_possible(checkpoint, shapes, number, within=within)
    kept: list[tuple[int, ...]] = []
    writers: list[LinearMap] = []
    layers: list[Treated] = []
    rows = 0
    stored = torch.promote_types(checkpoint.dtype, torch.float32)
    for layer, shape in zip(blueprint.layers, shapes, strict=True):
        site = f"{blueprint.main.prefix}{layer.index}.z"
        reading = Narrowing.of(checkpoint, moments, site, shape.writer)
        chosen = choose(reading, shape, number, within=within, select=select)
        made = reading.keeping(shape.columns(chosen), refit=refit)
        kept.append(chosen)
        writers.append(made.map.to(dtype=stored))
        layers.append(Treated(layer.index, number / shape.count, made.errors.get("report")))
        rows = reading.rows
        if progress:
            progress(len(kept), blueprint.depth)
    first = shapes[0]
    return compression(
        checkpoint,
        [SelectHeads(tuple(kept), tuple(writers))],
        method="heads",
        treated=layers,
        treated_parameters=treated,
        rows=rows if refit else None,
        width=first.count * first.width if refit else None,
        select=select,
        refit=refit,
        heads=number,
        heads_before=first.count,
        key_heads=first.keys if within else number // first.group,
        key_heads_before=first.keys,
        kept=[list(own) for own in kept],
    )


def _require_possible(
    checkpoint: Checkpoint, shapes: list[AttentionHeads], number: int, *, within: bool
) -> None:
    """Refuse before anything is solved what the architecture cannot take."""
    first = shapes[0]
    each, group = (number // first.keys, first.group) if within else (number, first.count)
    some = tuple(head for head in range(first.count) if head % group < each)
    width = checkpoint.blueprint.width
    nothing = Dense(torch.zeros(width, number * first.width))
    depth = checkpoint.blueprint.depth
    SelectHeads((some,) * depth, (nothing,) * depth).rewrite(Draft.of(checkpoint))
