"""Moves as data: fields as JSON, a map as its spec and its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import LinearMap, map_from
from gramian.maps.document import under
from gramian.networks.moves.arrange import Arrange
from gramian.networks.moves.cache_latent import CacheLatent
from gramian.networks.moves.centre_writers import CentreWriters
from gramian.networks.moves.combine_layers import CombineLayers
from gramian.networks.moves.drop_layers import DropLayers
from gramian.networks.moves.fold_map import FoldMap
from gramian.networks.moves.fold_norm import FoldNorm
from gramian.networks.moves.fold_outputs import FoldOutputs
from gramian.networks.moves.fold_projection import FoldProjection
from gramian.networks.moves.fold_reader import FoldReader
from gramian.networks.moves.fold_stream import FoldStream
from gramian.networks.moves.insert import Insert
from gramian.networks.moves.narrow import Narrow
from gramian.networks.moves.protocol import Move
from gramian.networks.moves.replace import Replace
from gramian.networks.moves.resize import Resize
from gramian.networks.moves.rotate import Rotate
from gramian.networks.moves.select_heads import SelectHeads
from gramian.networks.moves.select_neurons import SelectNeurons
from gramian.networks.moves.set_linear import SetLinear
from gramian.networks.moves.split_linear import SplitLinear

KINDS: dict[str, Any] = {
    kind.kind: kind
    for kind in (
        Arrange,
        CacheLatent,
        CentreWriters,
        CombineLayers,
        DropLayers,
        FoldMap,
        FoldNorm,
        FoldOutputs,
        FoldProjection,
        FoldReader,
        FoldStream,
        Insert,
        Narrow,
        Replace,
        Resize,
        Rotate,
        SelectHeads,
        SelectNeurons,
        SetLinear,
        SplitLinear,
    )
}
"""Every move that can be saved, by its ``kind``."""


def encode(move: Move) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A move as JSON and, where it has maps, their tensors: of several under their numbers."""
    if move.kind not in KINDS:
        raise GramianError(f"a move of kind {move.kind!r} cannot be saved")
    described: dict[str, Any] = {"kind": move.kind}
    tensors: dict[str, Tensor] = {}
    for field in fields(KINDS[move.kind]):
        value = getattr(move, field.name)
        if isinstance(value, LinearMap):
            described[field.name] = value.spec()
            tensors |= value.tensors()
        elif isinstance(value, tuple) and any(isinstance(one, LinearMap) for one in value):
            described[field.name] = [one.spec() for one in value]
            for i, one in enumerate(value):
                own = one.tensors()
                tensors |= {f"{field.name}.{i}.{name}": tensor for name, tensor in own.items()}
        else:
            described[field.name] = list(value) if isinstance(value, tuple) else value
    return described, tensors


def decode(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Move:
    """The move that :func:`encode` described.

    Raises
    ------
    GramianError : a kind that this version does not know, or fields that do not fit it.
    """
    kind = described["kind"]
    if kind not in KINDS:
        raise GramianError(f"unknown move {kind!r}; this version knows {', '.join(sorted(KINDS))}")
    names = {field.name for field in fields(KINDS[kind])}
    given = {name: value for name, value in described.items() if name != "kind"}
    if set(given) - names:
        raise GramianError(f"a move {kind!r} has no {sorted(set(given) - names)[0]!r}")
    for name, value in given.items():
        if name == "map":
            given[name] = map_from(value, tensors)
        elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
            given[name] = tuple(
                map_from(one, under(tensors, f"{name}.{i}.")) for i, one in enumerate(value)
            )
        else:
            given[name] = _tuples(value)
    move: Move = KINDS[kind](**given)
    return move


def _tuples(value: Any) -> Any:
    """JSON lists, also in one another, as the tuples that a move holds."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
