"""Vectors where they lie: files and stores, read in batches and written anew."""

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.opening import open_sink, open_vectors
from gramian.bridge.vectors.protocol import (
    Limits,
    SearchableSource,
    VectorBatch,
    VectorSink,
    VectorSource,
)
from gramian.bridge.vectors.reading import describe, read_all

__all__ = [
    "Address",
    "Limits",
    "SearchableSource",
    "VectorBatch",
    "VectorSink",
    "VectorSource",
    "describe",
    "open_sink",
    "open_vectors",
    "read_all",
]
