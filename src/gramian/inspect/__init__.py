"""Look at a network through its moments: spread, loud channels, sinks, what the weights use."""

from __future__ import annotations

from gramian.inspect.channels import Channels, Outlier
from gramian.inspect.inspection import Inspection, inspect
from gramian.inspect.linears import LinearInspection, by_name
from gramian.inspect.needs import needs
from gramian.inspect.site import SPREAD, Caution, Sinks, SiteInspection

__all__ = [
    "SPREAD",
    "Caution",
    "Channels",
    "Inspection",
    "LinearInspection",
    "Outlier",
    "Sinks",
    "SiteInspection",
    "by_name",
    "inspect",
    "needs",
]
