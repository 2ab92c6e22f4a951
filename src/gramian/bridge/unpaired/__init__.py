"""Bridges without pairs: two clouds of rows that share none."""

from gramian.bridge.unpaired.cloud import Cloud
from gramian.bridge.unpaired.confidence import AmbiguousMatch, Confidence
from gramian.bridge.unpaired.estimator import UnpairedBridge
from gramian.bridge.unpaired.gaussian import GaussianBridge

__all__ = ["AmbiguousMatch", "Cloud", "Confidence", "GaussianBridge", "UnpairedBridge"]
