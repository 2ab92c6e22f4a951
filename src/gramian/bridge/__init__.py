"""Bridges between embedding spaces: fit, judge, apply, export; paired or not."""

from gramian.bridge.paired import Bridge, LearningCurve, Suspects, feasibility, learning_curve
from gramian.bridge.retrieval import overlap_at_k, partner_ranks, partner_recall, top_k
from gramian.bridge.rows import as_matrix
from gramian.bridge.saved import SavedBridge, SideCheck, Space, open_bridge

__all__ = [
    "Bridge",
    "LearningCurve",
    "SavedBridge",
    "SideCheck",
    "Space",
    "Suspects",
    "as_matrix",
    "feasibility",
    "learning_curve",
    "open_bridge",
    "overlap_at_k",
    "partner_ranks",
    "partner_recall",
    "top_k",
]
