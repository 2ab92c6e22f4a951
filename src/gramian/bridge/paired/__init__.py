"""Bridges fitted on pairs: one estimator, its families, and how it chooses among them."""

from gramian.bridge.paired.estimator import Bridge
from gramian.bridge.paired.families import AUTO, METHODS, Setting
from gramian.bridge.paired.feasibility import feasibility
from gramian.bridge.paired.finding import Finding, Targets
from gramian.bridge.paired.learning import LearningCurve, learning_curve
from gramian.bridge.paired.trimming import Suspects

__all__ = [
    "AUTO",
    "METHODS",
    "Bridge",
    "Finding",
    "LearningCurve",
    "Setting",
    "Suspects",
    "Targets",
    "feasibility",
    "learning_curve",
]
