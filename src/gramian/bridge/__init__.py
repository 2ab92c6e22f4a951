"""Bridges between embedding spaces: fit, judge, apply, export; paired or not."""

from importlib.util import find_spec

from gramian.errors import GramianError

if find_spec("sklearn") is None or find_spec("pyarrow") is None:
    raise GramianError("bridges need scikit-learn and pyarrow: pip install 'gramian[bridge]'")

from gramian.bridge.costs import CostPlan, plan_costs
from gramian.bridge.judging import Judgement, judge, read_qrels
from gramian.bridge.paired import Bridge, LearningCurve, Suspects, feasibility, learning_curve
from gramian.bridge.rates import Price, Rate
from gramian.bridge.retrieval import overlap_at_k, partner_ranks, partner_recall, top_k
from gramian.bridge.rows import as_matrix
from gramian.bridge.saved import SavedBridge, SideCheck, Space, open_bridge
from gramian.bridge.sharpen import (
    bind_attributes,
    prompt_inverse,
    reduce_width,
    token_counts,
    whiten_table,
    whiten_vectors,
)
from gramian.bridge.spaces import (
    CommonVectors,
    CompatibleVectors,
    backfill_curve,
    backfill_order,
    expected_error,
    meta_embeddings,
)
from gramian.bridge.unpaired import AmbiguousMatch, Confidence, GaussianBridge, UnpairedBridge

__all__ = [
    "AmbiguousMatch",
    "Bridge",
    "CommonVectors",
    "CompatibleVectors",
    "Confidence",
    "CostPlan",
    "GaussianBridge",
    "Judgement",
    "LearningCurve",
    "Price",
    "Rate",
    "SavedBridge",
    "SideCheck",
    "Space",
    "Suspects",
    "UnpairedBridge",
    "as_matrix",
    "backfill_curve",
    "backfill_order",
    "bind_attributes",
    "expected_error",
    "feasibility",
    "judge",
    "learning_curve",
    "meta_embeddings",
    "open_bridge",
    "overlap_at_k",
    "partner_ranks",
    "partner_recall",
    "plan_costs",
    "prompt_inverse",
    "read_qrels",
    "reduce_width",
    "token_counts",
    "top_k",
    "whiten_table",
    "whiten_vectors",
]
