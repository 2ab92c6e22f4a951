"""The moves a plan is made of: each rewrites a draft, and knows what it means on the source."""

from __future__ import annotations

from gramian.networks.moves.arrange import Arrange
from gramian.networks.moves.cache_latent import CacheLatent
from gramian.networks.moves.centre_writers import CentreWriters
from gramian.networks.moves.combine_layers import CombineLayers
from gramian.networks.moves.drop_layers import DropLayers
from gramian.networks.moves.encoding import decode, encode
from gramian.networks.moves.fold_map import FoldMap
from gramian.networks.moves.fold_norm import FoldNorm
from gramian.networks.moves.fold_outputs import FoldOutputs
from gramian.networks.moves.fold_projection import FoldProjection
from gramian.networks.moves.fold_reader import FoldReader
from gramian.networks.moves.fold_stream import FoldStream
from gramian.networks.moves.insert import Insert
from gramian.networks.moves.narrow import Narrow
from gramian.networks.moves.protocol import Move, as_if, stages
from gramian.networks.moves.replace import Replace
from gramian.networks.moves.resize import Resize
from gramian.networks.moves.rotate import Rotate
from gramian.networks.moves.select_heads import SelectHeads
from gramian.networks.moves.select_neurons import SelectNeurons
from gramian.networks.moves.set_linear import SetLinear
from gramian.networks.moves.split_linear import SplitLinear

__all__ = [
    "Arrange",
    "CacheLatent",
    "CentreWriters",
    "CombineLayers",
    "DropLayers",
    "FoldMap",
    "FoldNorm",
    "FoldOutputs",
    "FoldProjection",
    "FoldReader",
    "FoldStream",
    "Insert",
    "Move",
    "Narrow",
    "Replace",
    "Resize",
    "Rotate",
    "SelectHeads",
    "SelectNeurons",
    "SetLinear",
    "SplitLinear",
    "as_if",
    "decode",
    "encode",
    "stages",
]
