"""With classes or labels: projections that tell them apart, and heads that name new ones."""

from gramian.bridge.labels.heads import LabelHead, label_head
from gramian.bridge.labels.history import HistoryAware, history_discriminant
from gramian.bridge.labels.probe import Probe, project_and_probe
from gramian.bridge.labels.subclasses import SubclassTargets, subclass_targets

__all__ = [
    "HistoryAware",
    "LabelHead",
    "Probe",
    "SubclassTargets",
    "history_discriminant",
    "label_head",
    "project_and_probe",
    "subclass_targets",
]
