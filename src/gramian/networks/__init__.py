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
    CentreWriters,
    DropLayers,
    FoldMap,
    FoldNorm,
    FoldReader,
    FoldStream,
    Move,
    Replace,
    Rotate,
    SplitLinear,
)
from gramian.networks.needs import Cost, Need, Needs, linears, rank
from gramian.networks.paired import collect_pair
from gramian.networks.plan import Plan
from gramian.networks.ray_shards import collect_on_ray
from gramian.networks.settings import Settings

__all__ = [
    "Arrange",
    "Blueprint",
    "Captured",
    "CentreWriters",
    "Certificate",
    "Checkpoint",
    "Cost",
    "DropLayers",
    "FoldMap",
    "FoldNorm",
    "FoldReader",
    "FoldStream",
    "Move",
    "Need",
    "Needs",
    "Plan",
    "Replace",
    "Rotate",
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
]
