"""A bridge for other libraries: sentence-transformers, ONNX, FAISS, torch."""

from gramian.bridge.export.exporting import KINDS, Exported, export_bridge
from gramian.bridge.export.layer import Layer

__all__ = ["KINDS", "Exported", "Layer", "export_bridge"]
