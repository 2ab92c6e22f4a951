"""Read early layers: casts to the last layer, early exit, and how linear every step is."""

from __future__ import annotations

from gramian.lens.branches import BranchScore, judge_branches
from gramian.lens.casts import Cast, Casts, solve
from gramian.lens.early_exit import EarlyExit, early_exit
from gramian.lens.judge import Judgement, LayerScore, judge
from gramian.lens.needs import needs
from gramian.lens.prompt import PromptReading, read_prompt
from gramian.lens.scores import LayerLinearity, layer_linearity
from gramian.lens.storage import load_casts, save_casts
from gramian.lens.summary import Summary
from gramian.lens.unseen import unseen

__all__ = [
    "BranchScore",
    "Cast",
    "Casts",
    "EarlyExit",
    "Judgement",
    "LayerLinearity",
    "LayerScore",
    "PromptReading",
    "Summary",
    "early_exit",
    "judge",
    "judge_branches",
    "layer_linearity",
    "load_casts",
    "needs",
    "read_prompt",
    "save_casts",
    "solve",
    "unseen",
]
