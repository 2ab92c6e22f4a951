"""A network that computes what its sliced form would, at full size: to measure, not to keep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gramian.compress.slicing.bases import (
    FIT,
    SINK_WEIGHT,
    Discarded,
    discarded,
    seconds,
    shared_basis,
    subtracts_mean,
)
from gramian.compress.slicing.needs import needs, stream_sites
from gramian.errors import GramianError
from gramian.moments import MomentSet
from gramian.networks import Checkpoint
from gramian.networks.capture import hidden, module_input
from gramian.networks.parts import Layer
from gramian.solvers.pooled_basis import pooled_basis

Rotation = Literal["per-site", "shared"]


@dataclass(frozen=True)
class Simulation:
    """What is simulated."""

    rotation: Rotation
    width: int
    discarded: tuple[Discarded, ...]


@contextmanager
def simulated(
    checkpoint: Checkpoint,
    moments: MomentSet,
    width: int,
    *,
    rotation: Rotation = "per-site",
    sink_weight: float = SINK_WEIGHT,
) -> Iterator[Simulation]:
    """While open, ``checkpoint.model`` computes what it would with a stream of this width.

    At every place the stream is projected onto the leading directions there. With
    ``rotation="per-site"`` that is SliceGPT as published, whose shortcuts need a matrix each, so
    that no ordinary checkpoint holds it; the network stays as large and as slow as it was.

    Parameters
    ----------
    width : directions kept at every place. Where norms subtract the mean, those beside the
        vector of ones.

    Raises
    ------
    GramianError : other moments, a width outside 1 to d, an unknown rotation.
    """
    needs(checkpoint).require(checkpoint, moments, "slice")
    d = checkpoint.blueprint.width
    if not 1 <= width <= d:
        raise GramianError(f"width is {width}, expected 1 to {d}")
    bases = _bases(checkpoint, moments, width, rotation, sink_weight)
    mean_free = subtracts_mean(checkpoint)
    lost = tuple(
        discarded(moments, site, rows, mean_free=mean_free) for site, rows in bases.items()
    )
    with ExitStack() as stack:
        for layer in checkpoint.blueprint.layers:
            _project(checkpoint, layer, bases, stack)
        yield Simulation(rotation, width, lost)


def _bases(
    checkpoint: Checkpoint, moments: MomentSet, width: int, rotation: Rotation, sink_weight: float
) -> dict[str, Tensor]:
    """Place -> orthonormal rows (width, d)."""
    sites, mean_free = stream_sites(checkpoint), subtracts_mean(checkpoint)
    if rotation == "shared":
        rows = shared_basis(checkpoint, moments, sites, sink_weight=sink_weight).rows[:width]
        return dict.fromkeys(sites, rows)
    if rotation != "per-site":
        raise GramianError(f"rotation is {rotation!r}, expected 'per-site' or 'shared'")
    ones = torch.ones(checkpoint.blueprint.width, dtype=torch.float64) if mean_free else None
    found = {}
    for site in sites:
        rest, sinks = seconds(moments, site, FIT, mean_free=mean_free)
        basis = pooled_basis(((1.0, rest), (sink_weight, sinks)), apart=ones)
        found[site] = basis.rows[:width].clone()
    return found


def _project(
    checkpoint: Checkpoint, layer: Layer, bases: dict[str, Tensor], stack: ExitStack
) -> None:
    """Project the stream within one layer: what a branch adds is changed so that the sum is."""
    model, plan, i = checkpoint.model, checkpoint.blueprint, layer.index
    stream: dict[str, Tensor] = {}
    last = i == plan.depth - 1
    places = {"attn_out": f"{i}.resid_mid", "mlp_out": "final" if last else f"{i + 1}.resid_pre"}

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = module_input(args, kwargs)
        if i > 0:
            stream["now"] = given
            return None
        stream["now"] = _seen(given, bases["0.resid_pre"])
        if args:
            return (stream["now"], *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": stream["now"]}

    block = model.get_submodule(layer.path)
    stack.callback(block.register_forward_pre_hook(enter, with_kwargs=True).remove)
    for kind, place in places.items():
        tap = layer.taps[kind]

        def leave(
            _m: nn.Module, _a: Any, output: Any, place: str = place, scale: float = tap.scale
        ) -> Any:
            given = hidden(output)
            # OPT runs its MLP on the rows of all sequences in one.
            new = stream["now"] + given.reshape(stream["now"].shape) * scale
            # Branches side by side are projected once, after both.
            new = _seen(new, bases[place]) if place in bases else new
            change = ((new - stream["now"]) / scale).reshape(given.shape)
            stream["now"] = new
            return (change, *output[1:]) if isinstance(output, tuple) else change

        stack.callback(model.get_submodule(tap.path).register_forward_hook(leave).remove)


def _seen(rows: Tensor, basis: Tensor) -> Tensor:
    """``T Tᵀ x``."""
    thin = basis.to(rows.device)
    return ((rows.double() @ thin.T) @ thin).to(rows.dtype)
