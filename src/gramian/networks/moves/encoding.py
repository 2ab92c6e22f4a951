"""Moves as data: fields as JSON, a map as its spec and its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import LinearMap, map_from
from gramian.networks.moves.arrange import Arrange
from gramian.networks.moves.centre_writers import CentreWriters
from gramian.networks.moves.drop_layers import DropLayers
from gramian.networks.moves.fold_map import FoldMap
from gramian.networks.moves.fold_norm import FoldNorm
from gramian.networks.moves.fold_reader import FoldReader
from gramian.networks.moves.fold_stream import FoldStream
from gramian.networks.moves.protocol import Move
from gramian.networks.moves.replace import Replace
from gramian.networks.moves.rotate import Rotate
from gramian.networks.moves.split_linear import SplitLinear

KINDS: dict[str, Any] = {
    kind.kind: kind
    for kind in (
        Arrange,
        CentreWriters,
        DropLayers,
        FoldMap,
        FoldNorm,
        FoldReader,
        FoldStream,
        Replace,
        Rotate,
        SplitLinear,
    )
}
"""Every move that can be saved, by its ``kind``."""


def encode(move: Move) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A move as JSON and, where it has a map, that map's tensors."""
    if move.kind not in KINDS:
        raise GramianError(f"a move of kind {move.kind!r} cannot be saved")
    described: dict[str, Any] = {"kind": move.kind}
    tensors: dict[str, Tensor] = {}
    for field in fields(KINDS[move.kind]):
        value = getattr(move, field.name)
        if isinstance(value, LinearMap):
            described[field.name], tensors = value.spec(), value.tensors()
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
        elif isinstance(value, list):
            given[name] = tuple(value)
    move: Move = KINDS[kind](**given)
    return move
