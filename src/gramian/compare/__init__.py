"""Compare layers: inside one network, between two, and between collections made apart."""

from __future__ import annotations

from gramian.compare.catalogue import MEASURES, Measure
from gramian.compare.comparison import Best, Comparison, Matrix
from gramian.compare.layers import compare
from gramian.compare.needs import needs

__all__ = ["MEASURES", "Best", "Comparison", "Matrix", "Measure", "compare", "needs"]
