"""Several models in one space, and a new model that an old gallery understands."""

from gramian.bridge.spaces.backfill import (
    BackfillPoint,
    ExpectedError,
    backfill_curve,
    backfill_order,
    expected_error,
)
from gramian.bridge.spaces.common import CommonVectors
from gramian.bridge.spaces.heads import CompatibleVectors
from gramian.bridge.spaces.meta import MetaTable, meta_embeddings
from gramian.bridge.spaces.tables import KeyedTable

__all__ = [
    "BackfillPoint",
    "CommonVectors",
    "CompatibleVectors",
    "ExpectedError",
    "KeyedTable",
    "MetaTable",
    "backfill_curve",
    "backfill_order",
    "expected_error",
    "meta_embeddings",
]
