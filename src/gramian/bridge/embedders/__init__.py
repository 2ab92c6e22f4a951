"""Text to vectors: models in packages and folders, static tables, endpoints."""

from gramian.bridge.embedders.opening import open_embedder
from gramian.bridge.embedders.protocol import Embedder

__all__ = ["Embedder", "open_embedder"]
