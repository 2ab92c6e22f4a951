"""Larger networks that compute the same: repeated features, neurons and heads, silent blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from gramian.compress.resize.document import resizing
from gramian.compress.resize.shape import Shape, positive, require_dense, shape_of
from gramian.errors import GramianError
from gramian.maps import Diagonal
from gramian.networks import Arrange, CentreWriters, Checkpoint, Insert, Move, Plan, Resize
from gramian.networks.moves.axis import Axis, spread
from gramian.registry import method

LayersBy = Literal["zero", "stack", "interlace"]
Heads = tuple[int, int]


@method("function-preserving growth", job="resize", paper="1511.05641, 2110.07143")
def grow(
    checkpoint: Checkpoint,
    *,
    width: int | None = None,
    mlp: int | None = None,
    heads: Heads | None = None,
    layers: int | None = None,
    layers_by: LayersBy = "zero",
    noise: float = 0.0,
    seed: int = 0,
) -> Plan:
    """A larger network with the outputs of the source, as a start for training it on.

    Every new feature of the stream, neuron and head repeats an old one, and what reads it shares
    its old weight among the copies (Net2Net, bert2BERT). Uniformly repeated features have the
    same mean and mean square, so norms give what they gave; a stream that is no multiple of the
    old one gets zeros for the rest, is written ``sqrt(new / old)`` as large, so that its mean
    square stays, and the gains of its norms are divided by that. New blocks are copies whose
    writing matrices are zero.

    Parameters
    ----------
    width : features of the stream. A multiple of the old one repeats heads as often where
        ``heads`` does not say otherwise.
    mlp : neurons of every MLP.
    heads : query heads and heads of keys and values; as many queries for every key as before.
    layers : number of blocks; the new ones are spread evenly.
    layers_by : ``"zero"`` for silent copies; ``"stack"`` (``k mod L``) and ``"interlace"``
        (``k L // L'``) repeat blocks as they are, the initialisation of LiGO (2303.00980). These
        change the function.
    noise : up to which share copies of neurons and heads are weighed differently, from 0 (equal
        copies, which equal gradients keep equal) to below 1. Their sum stays.

    Raises
    ------
    GramianError : a size below the present one, heads that do not divide, experts, a norm on the
        stream (post-LN), or a width that the architecture cannot have with its heads.
    """
    old = shape_of(checkpoint)
    if any(size is not None for size in (width, mlp, heads)):
        require_dense(old, checkpoint.blueprint.model_type)
    new = _wanted(checkpoint, old, width, mlp, heads, layers)
    if not 0 <= noise < 1:
        raise GramianError(f"noise is {noise}, expected a share from 0 to below 1")
    moves: list[Move] = []
    why: list[str] = []
    warnings: list[str] = []
    if replace(new, layers=old.layers) != old:
        moves += _wider(checkpoint, old, new, noise, seed)
        why += _reasons(old, new)
        if len(moves) > 1:
            warnings.append(
                "zero features would move the mean that LayerNorm subtracts: all that writes into "
                "the stream is centred first, and a tied head gets a table of its own"
            )
        if noise == 0:
            warnings.append(
                "equal copies get equal gradients: train with dropout, or grow with noise, for "
                "copies that come to differ"
            )
    if new.layers > old.layers:
        moves.append(_deeper(old.layers, new.layers, layers_by))
        if layers_by == "zero":
            why.append("new blocks add zero to the stream: x + 0 = x")
        else:
            why = []
            warnings.append(
                f"{layers_by} repeats blocks as they are: the outputs change, and the network has "
                "to be trained on"
            )
    if not moves:
        raise GramianError("nothing grows: give a width, mlp, heads or layers above the present")
    return resizing(
        checkpoint,
        moves,
        method="grow",
        unchanged=why,
        warnings=warnings,
        layers_by=layers_by,
        noise=noise,
    )


def _wanted(
    checkpoint: Checkpoint,
    old: Shape,
    width: int | None,
    mlp: int | None,
    heads: Heads | None,
    layers: int | None,
) -> Shape:
    given = {"width": width, "mlp": mlp, "layers": layers}
    sizes = {name: positive(value, name) for name, value in given.items() if value is not None}
    new = replace(old, **sizes)
    times, rest = divmod(new.width, old.width)
    if heads is None and not rest:
        heads = (old.heads * times, old.keys * times)
    if heads is not None:
        queries, keys = (positive(value, "heads") for value in heads)
        if queries * old.keys != keys * old.heads:
            raise GramianError(
                f"heads {queries}/{keys}: expected {old.heads // old.keys} query heads for every "
                f"head of keys, as in {old.heads}/{old.keys}: heads are repeated in whole groups"
            )
        new = replace(new, heads=queries, keys=keys)
    for name in ("width", "mlp", "keys", "layers"):
        if getattr(new, name) < getattr(old, name):
            raise GramianError(
                f"{name} {getattr(new, name)} is less than the {getattr(old, name)} of "
                f"{checkpoint.name}; use shrink"
            )
    return new


def _wider(checkpoint: Checkpoint, old: Shape, new: Shape, noise: float, seed: int) -> list[Move]:
    group = old.heads // old.keys
    keys = _repeated(old.keys, new.keys)
    queries = tuple(k * group + i for k in keys for i in range(group))
    neurons = _repeated(old.mlp, new.mlp)
    whole = new.width // old.width * old.width
    stream = (*_repeated(old.width, whole), *[-1] * (new.width - whole))
    grown = {"stream": new.width > old.width, "z": new.keys > old.keys, "mlp": new.mlp > old.mlp}
    places: list[str] = []
    maps: list[Diagonal] = []
    if noise:
        generator = torch.Generator().manual_seed(seed)
        for i in range(old.layers):
            if grown["z"]:
                places.append(f"{i}.z")
                shares = _uneven(Axis.of(queries, old.heads), noise, generator)
                maps.append(
                    Diagonal(shares[spread(range(new.heads), old.head_dim) // old.head_dim])
                )
            if grown["mlp"]:
                places.append(f"{i}.mlp_mid")
                maps.append(Diagonal(_uneven(Axis.of(neurons, old.mlp), noise, generator)))
    resize = Resize(
        stream=stream if grown["stream"] else (),
        neurons=(neurons,) * old.layers if grown["mlp"] else (),
        queries=(queries,) * old.layers if grown["z"] else (),
        keys=(keys,) * old.layers if grown["z"] else (),
        places=tuple(places),
        maps=tuple(maps),
    )
    layered = any(norm.kind == "layer" for norm in checkpoint.blueprint.stream_norms())
    padded = grown["stream"] and whole < new.width
    return [CentreWriters(), resize] if layered and padded else [resize]


def _repeated(old: int, new: int) -> tuple[int, ...]:
    """All of them once, again, and again, until there are enough."""
    return tuple(i % old for i in range(new))


def _uneven(axis: Axis, noise: float, generator: torch.Generator) -> Tensor:
    """Shares of copies that differ by up to ``noise`` and sum to one."""
    draw = torch.rand(len(axis.index), generator=generator, dtype=torch.float64)
    weight = 1 + noise * (2 * draw - 1)
    sums = torch.zeros(axis.size, dtype=torch.float64).index_add_(0, axis.index, weight)
    return weight / sums[axis.index]


def _deeper(old: int, new: int, by: LayersBy) -> Move:
    interlaced = tuple(k * old // new for k in range(new))
    match by:
        case "zero":
            return Insert(
                tuple(
                    interlaced[k] for k in range(1, new) if k * old // new == (k - 1) * old // new
                )
            )
        case "stack":
            return Arrange(tuple(k % old for k in range(new)))
        case "interlace":
            return Arrange(interlaced)
    raise GramianError(f"layers_by is {by!r}, expected 'zero', 'stack' or 'interlace'")


def _reasons(old: Shape, new: Shape) -> list[str]:
    found: list[str] = []
    if new.width > old.width:
        times, rest = divmod(new.width, old.width)
        if times > 1:
            found.append(
                f"every feature of the stream is there {times} times: its mean and mean square "
                "are the same, so norms are, and readers give every copy its share"
            )
        if rest:
            found.append(
                f"{rest} features of the stream are zero: the others are written larger, so that "
                "norms divide by the same mean square, and the gains of the norms undo it"
            )
    if new.keys > old.keys:
        found.append(
            "heads are repeated in whole groups, and the output matrix shares their weight"
        )
    if new.mlp > old.mlp:
        found.append("neurons are repeated, and the output matrix shares their weight")
    return found
