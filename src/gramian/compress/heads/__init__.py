"""Fewer attention heads in every layer: chosen from moments, the matrix behind them refitted."""

from __future__ import annotations

from gramian.compress.heads.needs import needs
from gramian.compress.heads.planning import SELECTIONS, plan

__all__ = ["SELECTIONS", "needs", "plan"]
