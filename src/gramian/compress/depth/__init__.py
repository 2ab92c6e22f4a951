"""Fewer blocks: scores of blocks, cuts, and the linear map that stands for a cut."""

from gramian.compress.depth.cut import Cut, StreamChange
from gramian.compress.depth.fit import Fitted, fit
from gramian.compress.depth.needs import needs
from gramian.compress.depth.plan import Method, Objective, plan
from gramian.compress.depth.scores import BlockScore, By, Scores, scores
from gramian.compress.depth.sink import SinkWriter

__all__ = [
    "BlockScore",
    "By",
    "Cut",
    "Fitted",
    "Method",
    "Objective",
    "Scores",
    "SinkWriter",
    "StreamChange",
    "fit",
    "needs",
    "plan",
    "scores",
]
