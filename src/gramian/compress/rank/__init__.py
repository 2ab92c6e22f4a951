"""Fewer directions in every linear: two thin factors that give what it gave."""

from __future__ import annotations

from gramian.compress.rank.needs import needs
from gramian.compress.rank.planning import plan, plan_solved
from gramian.compress.rank.solving import Solved, solve

__all__ = ["Solved", "needs", "plan", "plan_solved", "solve"]
