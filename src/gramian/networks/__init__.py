"""Where maps live in a model: opening, collecting, planning and applying."""

from __future__ import annotations

from gramian.networks.apply import apply
from gramian.networks.blueprint import Blueprint
from gramian.networks.capture import Captured, capture
from gramian.networks.certificate import Certificate
from gramian.networks.checkpoint import Checkpoint, open
from gramian.networks.collect import collect
from gramian.networks.moves import DropLayers, FoldMap, FoldNorm, Move
from gramian.networks.needs import Cost, Need, Needs, linears
from gramian.networks.plan import Plan
from gramian.networks.settings import Settings

__all__ = [
    "Blueprint",
    "Captured",
    "Certificate",
    "Checkpoint",
    "Cost",
    "DropLayers",
    "FoldMap",
    "FoldNorm",
    "Move",
    "Need",
    "Needs",
    "Plan",
    "Settings",
    "apply",
    "capture",
    "collect",
    "linears",
    "open",
]
