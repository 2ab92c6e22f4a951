"""Several models in one space, and a new model that an old gallery understands."""

from gramian.bridge.spaces.common import CommonVectors
from gramian.bridge.spaces.meta import MetaTable, meta_embeddings
from gramian.bridge.spaces.tables import KeyedTable

__all__ = ["CommonVectors", "KeyedTable", "MetaTable", "meta_embeddings"]
