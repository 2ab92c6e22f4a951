"""Bridges fitted on pairs: one estimator, its families, and how it chooses among them."""

from gramian.bridge.paired.estimator import Bridge
from gramian.bridge.paired.families import METHODS, Setting
from gramian.bridge.paired.finding import Finding, Targets

__all__ = ["METHODS", "Bridge", "Finding", "Setting", "Targets"]
