"""Least squares in place of one factor: what goes is predicted from what stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Dense, LinearMap
from gramian.moments import JointMoments, Moments, MomentSet
from gramian.solvers import ridge


@dataclass(frozen=True)
class Refit:
    """How the features that go follow from those that stay."""

    map: LinearMap
    error_report: float
    """Squared error of what the matrices give, over its squared length, on ``report``."""
    rows_per_dimension: float


def refit(moments: MomentSet, site: str, kept: Sequence[int], weights: Sequence[Tensor]) -> Refit:
    """Predict the features of a site that go from those that stay.

    With ``C`` the second moments, ``C_gs C_ss^-1``: matrices that read it ``W_s + W_g C_gs
    C_ss^-1``, the Nystrom form of MoDeGPT (2408.09632). The ridge is chosen on ``select``; sink
    rows are part of the fit.

    Raises
    ------
    GramianError : moments of which only the diagonal was collected.
    """
    stay = torch.tensor(kept)
    folds = {
        fold: moments.moments(site, fold=fold, sinks=True) for fold in ("train", "select", "report")
    }
    if folds["train"].is_diagonal:
        raise GramianError(
            f"refit needs the whole second moments of {site}, of which these moments have the "
            "diagonal; collect with --for resize"
        )
    mask = torch.ones(folds["train"].d, dtype=torch.bool)
    mask[stay] = False
    go = torch.nonzero(mask).flatten()
    joints = {name: _joint(found, stay, go) for name, found in folds.items()}
    solution = ridge(joints["train"], joints["select"], joints["report"], intercept=False)
    rest = solution.map.to_dense(torch.float64)
    error = relative_error(folds["report"], stay, go, rest, weights)
    return Refit(Dense(rest), error, solution.evidence.rows_per_dimension)


def relative_error(
    report: Moments, stay: Tensor, go: Tensor, rest: Tensor, weights: Sequence[Tensor]
) -> float:
    """``tr D C D^T / tr W C W^T`` with ``D`` what the matrices miss: ``W_g`` on the features that
    go, less what their prediction makes up."""
    second = report.raw()
    missed = whole = 0.0
    for weight in weights:
        lost = torch.zeros_like(weight)
        lost[:, go] = weight[:, go]
        lost[:, stay] = -weight[:, go] @ rest
        missed += float(((lost @ second) * lost).sum())
        whole += float(((weight @ second) * weight).sum())
    return missed / whole if whole > 0 else 0.0


def _joint(found: Moments, stay: Tensor, go: Tensor) -> JointMoments:
    return JointMoments(found.select(stay), found.select(go), found.scatter[stay][:, go])
