"""Where maps live in a model: opening, collecting, planning and applying."""

from __future__ import annotations

from gramian.networks.apply import apply
from gramian.networks.blueprint import Blueprint
from gramian.networks.capture import Captured, capture
from gramian.networks.certificate import Certificate
from gramian.networks.checkpoint import Checkpoint, open
from gramian.networks.collect import collect
from gramian.networks.moves import (
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
    Move,
    Narrow,
    Replace,
    Resize,
    Rotate,
    SelectHeads,
    SelectNeurons,
    SetLinear,
    SplitLinear,
)
from gramian.networks.needs import Cost, Need, Needs, linears, rank
from gramian.networks.paired import collect_pair
from gramian.networks.plan import Plan
from gramian.networks.ray_shards import collect_on_ray
from gramian.networks.realise import realise
from gramian.networks.settings import Settings

__all__ = [
    "Arrange",
    "Blueprint",
    "CacheLatent",
    "Captured",
    "CentreWriters",
    "Certificate",
    "Checkpoint",
    "CombineLayers",
    "Cost",
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
    "Need",
    "Needs",
    "Plan",
    "Replace",
    "Resize",
    "Rotate",
    "SelectHeads",
    "SelectNeurons",
    "SetLinear",
    "Settings",
    "SplitLinear",
    "apply",
    "capture",
    "collect",
    "collect_on_ray",
    "collect_pair",
    "linears",
    "open",
    "rank",
    "realise",
]
