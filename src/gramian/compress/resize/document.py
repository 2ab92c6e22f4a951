"""A plan for another size, and what it tells before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gramian.compress.resize.shape import shape_of
from gramian.networks import Checkpoint, Move, Plan
from gramian.networks.draft import Draft
from gramian.networks.reach import reach
from gramian.networks.sizes import sizes


def resizing(
    checkpoint: Checkpoint,
    moves: Sequence[Move],
    *,
    method: str,
    unchanged: Sequence[str],
    layers: Sequence[Mapping[str, Any]] = (),
    warnings: Sequence[str] = (),
    **more: Any,
) -> Plan:
    """A plan whose evidence holds the document of ``gramian resize``.

    Parameters
    ----------
    unchanged : why the outputs stay what they were, a sentence for every change; empty where
        they do not.
    """
    before = after = Draft.of(checkpoint)
    for move in moves:
        after = move.rewrite(after)
    old, new = sizes(before, checkpoint.dtype), sizes(after, checkpoint.dtype)
    document = {
        "method": method,
        "shape": shape_of(after).to_json(),
        "shape_before": shape_of(before).to_json(),
        "function": "unchanged" if unchanged else "changed",
        "why_unchanged": list(unchanged),
        "parameters": new.parameters,
        "parameters_before": old.parameters,
        "bytes": new.bytes,
        "bytes_before": old.bytes,
        "kv_bytes_per_token": new.kv_bytes_per_token,
        "kv_bytes_per_token_before": old.kv_bytes_per_token,
        "layers": [dict(entry) for entry in layers],
        "loads_in": reach(before, after),
        "warnings": list(warnings),
    }
    return Plan.of(checkpoint, *moves, evidence=document | more)
