"""What every compression tells before anything is written: what goes, what stays, what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gramian.errors import GramianError
from gramian.networks import Checkpoint, Move, Plan
from gramian.networks.draft import Draft
from gramian.networks.reach import reach
from gramian.networks.sizes import sizes

FEW = 10.0
"""Rows per dimension below which a fit is called thin."""

Of = Literal["layers", "model"]


@dataclass(frozen=True)
class Treated:
    """One layer, or one part of it, and what was kept."""

    layer: int
    kept: float
    """The share of its parameters, or of its directions, that stays; 0 for a block that goes."""
    error_report: float | None
    """Predicted squared error on ``report`` over the target's squared length; None where none
    follows from the moments."""
    part: str = ""
    """``down_proj``, ``k``: where a layer has several entries."""

    def to_json(self) -> dict[str, Any]:
        """``{"layer", "kept", "error_report"}``, and ``"part"`` where there is one."""
        found: dict[str, Any] = {"layer": self.layer}
        if self.part:
            found["part"] = self.part
        return found | {"kept": self.kept, "error_report": self.error_report}


def compression(
    checkpoint: Checkpoint,
    moves: Sequence[Move],
    *,
    method: str,
    treated: Sequence[Treated],
    treated_parameters: int,
    rows: int | None = None,
    width: int | None = None,
    warnings: Sequence[str] = (),
    **more: Any,
) -> Plan:
    """A plan whose evidence holds the document of ``gramian compress``.

    Parameters
    ----------
    treated_parameters : parameters, before, of what the method treats: of the linears of all
        blocks, of the MLPs. Shares of the layers are taken of these.
    rows, width : of the moments that the maps were solved from and of the widest of them; their
        ratio is shown, and warned of where it is small.
    more : further entries of the document.

    Raises
    ------
    GramianError : the network cannot take one of the moves.
    """
    before = after = Draft.of(checkpoint)
    for move in moves:
        after = move.rewrite(after)
    old, new = sizes(before, checkpoint.dtype), sizes(after, checkpoint.dtype)
    gone = old.parameters - new.parameters
    said = list(warnings)
    ratio = None if rows is None or width is None else rows / width
    if ratio is not None and ratio < FEW:
        said.append(
            f"{rows:,} rows for {width:,} dimensions, {ratio:.1f} for each: collect more tokens, "
            f"{FEW:.0f} for each or more"
        )
    document = {
        "method": method,
        "removed": {"of_layers": gone / treated_parameters, "of_model": gone / old.parameters},
        "parameters": new.parameters,
        "parameters_before": old.parameters,
        "bytes": new.bytes,
        "bytes_before": old.bytes,
        "kv_bytes_per_token": new.kv_bytes_per_token,
        "kv_bytes_per_token_before": old.kv_bytes_per_token,
        "rows_per_dimension": ratio,
        "layers": [one.to_json() for one in treated],
        "loads_in": reach(before, after),
        "warnings": said,
    }
    return Plan.of(checkpoint, *moves, evidence=document | more)


def share_of_layers(
    keep: float, of: Of, *, treated_parameters: int, model_parameters: int
) -> float:
    """The share of the treated layers to keep, from a share of these or of the whole model.

    Raises
    ------
    GramianError : a share outside (0, 1], or one of the model that the layers cannot give.
    """
    if not (math.isfinite(keep) and 0 < keep <= 1):
        raise GramianError(f"keep is {keep}, expected a share above 0 and at most 1, such as 0.8")
    if of == "layers":
        return keep
    if of != "model":
        raise GramianError(f"of is {of!r}, expected 'layers' or 'model'")
    share = 1 - (1 - keep) * model_parameters / treated_parameters
    if share <= 0:
        least = 1 - treated_parameters / model_parameters
        raise GramianError(
            f"keeping {keep:.1%} of the model would take more than the layers treated, which are "
            f"{treated_parameters / model_parameters:.1%} of it; keep more than {least:.1%}"
        )
    return share
