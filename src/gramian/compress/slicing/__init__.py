"""Slicing: fewer features in the residual stream (SliceGPT, arXiv:2401.15024)."""

from gramian.compress.slicing.bases import Discarded, shared_basis
from gramian.compress.slicing.needs import needs, stream_sites
from gramian.compress.slicing.planning import plan
from gramian.compress.slicing.quality import QualityFit, fit_quality
from gramian.compress.slicing.simulation import Simulation, simulated
from gramian.compress.slicing.sizes import SlicedSize, size_table

__all__ = [
    "Discarded",
    "QualityFit",
    "Simulation",
    "SlicedSize",
    "fit_quality",
    "needs",
    "plan",
    "shared_basis",
    "simulated",
    "size_table",
    "stream_sites",
]
