"""Plan fewer neurons for every MLP."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gramian.compress.compression import Of, Treated, compression, share_of_layers
from gramian.compress.mlp.choosing import SELECTIONS, Selection, choose
from gramian.compress.mlp.needs import needs
from gramian.compress.mlp.width import kept_width
from gramian.compress.narrowing import Narrowing
from gramian.compress.parameters import parameters_of
from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.moments import MomentSet
from gramian.networks import Checkpoint, Plan, SelectNeurons
from gramian.networks.draft import Draft
from gramian.networks.moves.select_neurons import neurons
from gramian.registry import method


@method("modegpt_mlp", job="compress", paper="2408.09632")
def plan(
    checkpoint: Checkpoint,
    moments: MomentSet,
    *,
    keep: float = 0.75,
    width: int | None = None,
    multiple: int = 1,
    of: Of = "layers",
    select: Selection = "eliminate",
    refit: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Fewer neurons in every MLP, those behind them refitted to give what all of them gave.

    The result is an ordinary checkpoint of the same architecture, narrower, with no map beside
    it. All layers keep equally many neurons, since a configuration has one number for them. The
    neurons are chosen on ``train``, the strength of the refit on ``select``, and the predicted
    error of every layer's output is stated on ``report``, for the layer's old inputs.

    Parameters
    ----------
    keep : share of the neurons, or with ``of="model"`` of all parameters.
    width : neurons to keep, instead of a share.
    multiple : the nearest multiple of this is kept (256 for the k-quants of llama.cpp).
    select : ``eliminate``, ``leverage`` (the paper's), ``pivoted`` or ``norm``: see ``choose``.
    refit : False keeps the weights of the neurons that stay, the naive counterpart.

    Raises
    ------
    GramianError : moments of another model or without the neurons (collect with ``--for mlp``),
        experts, a share or width that cannot be kept, an architecture that is only read.
    """
    if select not in SELECTIONS:
        raise GramianError(f"select is {select!r}, expected one of {', '.join(SELECTIONS)}")
    Draft.of(checkpoint)
    needs(checkpoint).require(checkpoint, moments, "mlp")
    blueprint = checkpoint.blueprint
    parts = [neurons(blueprint, layer) for layer in blueprint.layers]
    before = parts[0][2]
    treated = sum(parameters_of(checkpoint, (*readers, writer)) for readers, writer, _ in parts)
    if width is None:
        share = share_of_layers(
            keep,
            of,
            treated_parameters=treated,
            model_parameters=parameters_of(checkpoint),
        )
        width = kept_width(before, share, multiple=multiple)
    elif not 1 <= width <= before:
        raise GramianError(f"width is {width}, expected 1 to {before} neurons")
    kept: list[tuple[int, ...]] = []
    writers: list[LinearMap] = []
    layers: list[Treated] = []
    rows = 0
    stored = torch.promote_types(checkpoint.dtype, torch.float32)
    for layer, (_, writer, _) in zip(blueprint.layers, parts, strict=True):
        site = f"{blueprint.main.prefix}{layer.index}.mlp_mid"
        reading = Narrowing.of(checkpoint, moments, site, writer)
        chosen = choose(reading, width, select)
        made = reading.keeping(chosen, refit=refit)
        kept.append(tuple(chosen.tolist()))
        writers.append(made.map.to(dtype=stored))
        error = made.errors.get("report")
        layers.append(Treated(layer.index, width / before, error))
        rows = reading.rows
        if progress:
            progress(len(kept), blueprint.depth)
    return compression(
        checkpoint,
        [SelectNeurons(tuple(kept), tuple(writers))],
        method="mlp",
        treated=layers,
        treated_parameters=treated,
        rows=rows if refit else None,
        width=before if refit else None,
        select=select,
        refit=refit,
        neurons=width,
        neurons_before=before,
    )
