"""The moves a plan is made of: each rewrites a draft, and knows what it means on the source."""

from __future__ import annotations

from gramian.networks.moves.arrange import Arrange
from gramian.networks.moves.centre_writers import CentreWriters
from gramian.networks.moves.drop_layers import DropLayers
from gramian.networks.moves.encoding import decode, encode
from gramian.networks.moves.fold_map import FoldMap
from gramian.networks.moves.fold_norm import FoldNorm
from gramian.networks.moves.fold_reader import FoldReader
from gramian.networks.moves.fold_stream import FoldStream
from gramian.networks.moves.protocol import Move, as_if, stages
from gramian.networks.moves.replace import Replace
from gramian.networks.moves.rotate import Rotate
from gramian.networks.moves.split_linear import SplitLinear

__all__ = [
    "Arrange",
    "CentreWriters",
    "DropLayers",
    "FoldMap",
    "FoldNorm",
    "FoldReader",
    "FoldStream",
    "Move",
    "Replace",
    "Rotate",
    "SplitLinear",
    "as_if",
    "decode",
    "encode",
    "stages",
]
