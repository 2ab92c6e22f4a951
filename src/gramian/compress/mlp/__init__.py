"""Fewer neurons in every MLP: chosen from moments, the matrix behind them refitted."""

from __future__ import annotations

from gramian.compress.mlp.choosing import SELECTIONS
from gramian.compress.mlp.needs import needs
from gramian.compress.mlp.planning import plan
from gramian.compress.mlp.width import kept_width

__all__ = ["SELECTIONS", "kept_width", "needs", "plan"]
