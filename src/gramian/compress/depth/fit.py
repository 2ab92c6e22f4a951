"""The map that stands for a cut: least squares from moments alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.compress.depth.cut import Cut
from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.moments import MomentSet, Quadratic
from gramian.networks.between import places
from gramian.networks.checkpoint import Checkpoint
from gramian.registry import method
from gramian.solvers import quadratic_ridge


@dataclass(frozen=True)
class Fitted:
    """A cut, the map that stands for it, and what it leaves."""

    cut: Cut
    map: Dense
    """On the MLP output of the block before the cut."""
    relative: float
    """The ridge towards the identity, over the median eigenvalue of that output's second
    moments; of the cosine objective 0."""
    error_report: float
    """Squared error over the squared length of what the removed blocks add, on the rows of
    ``report`` that are no sinks; dropping the blocks leaves 1."""
    error_train: float
    """The same on the rows of ``train`` (and ``select``) that it was fitted on."""
    error_sinks: float | None
    """The same on all sink rows; None without any."""
    rows: int
    """Rows of the fit."""

    @property
    def site(self) -> str:
        """Where the map goes."""
        return f"{self.cut.start - 1}.mlp_out"


def foldable(checkpoint: Checkpoint, layer: int) -> bool:
    """Whether a map of a block's MLP output folds into a matrix and moves the stream itself."""
    found = checkpoint.blueprint.layers[layer]
    after = any(norm.place == "stream" for norm in found.norms.values())
    return "mlp_out" in found.writers and not after


def require_foldable(checkpoint: Checkpoint, layer: int) -> None:
    """Refuse a block whose MLP output a map cannot be folded into.

    Raises
    ------
    GramianError : as said.
    """
    if foldable(checkpoint, layer):
        return
    kind = checkpoint.blueprint.model_type
    reason = (
        "what its MLP adds is the output of a norm, not of a matrix"
        if "mlp_out" not in checkpoint.blueprint.layers[layer].writers
        else "a norm is applied to the stream after its MLP is added"
    )
    raise GramianError(
        f"no map can be folded into block {layer} of this {kind} network: {reason}; take "
        "method='drop' (--method drop) or 'laco'"
    )


def folds_of(moments: MomentSet, wanted: Sequence[str]) -> tuple[str, ...]:
    """Those folds, each of which must be there.

    Raises
    ------
    GramianError : one is empty.
    """
    for fold in wanted:
        if fold not in moments.folds:
            raise GramianError(
                f"these moments have nothing in the fold {fold!r}; collect more documents, or "
                "with other --shares"
            )
    return tuple(wanted)


def objective(
    checkpoint: Checkpoint,
    moments: MomentSet,
    cut: Cut,
    folds: Sequence[str],
    *,
    sinks: bool = False,
) -> Quadratic:
    """``sum |D - W m|^2``, ``m`` the MLP output before the cut, ``D`` what its blocks add.

    The map that stands for the cut is ``T = I + W``: with ``H`` the stream and ``Y = H - m`` what
    it was before that MLP, ``Y + T m - H_end = W m - D``.

    sinks : the sink rows too.
    """
    blueprint = checkpoint.blueprint
    residual, prefix = blueprint.residual_sites(), blueprint.main.prefix
    source = f"{prefix}{cut.start - 1}.mlp_out"
    after = moments.joint(source, residual[cut.end], fold=folds, sinks=sinks)
    before = moments.joint(source, residual[cut.start], fold=folds, sinks=sinks)
    column = list(places(len(residual))).index((cut.start, cut.end)) if cut.count else None
    squares = 0.0
    if column is not None:
        distances = moments.moments(f"{prefix}distances", folds, sinks=sinks)
        squares = distances.count * float(distances.mean[column])
    # M^T D = M^T H_end - M^T H_start
    cross = after.raw_cross() - before.raw_cross()
    return Quadratic(after.x.raw(), cross, squares, after.count)


@method("replaceme", job="compress", paper="2505.02819")
def fit(
    checkpoint: Checkpoint,
    moments: MomentSet,
    cut: Cut,
    *,
    strengths: Sequence[float] | None = None,
) -> Fitted:
    """The linear map of the MLP output before a cut that best makes up for its blocks.

    Least squares with a ridge towards the identity, in closed form: ``T = (M^T M + a I)^-1
    (M^T Z + a I)`` for rows ``M`` and ``Z = M + D``. Sink rows are part of the fit: what follows
    reads them in every window. ``a`` is relative to the median eigenvalue of ``M^T M``, which no
    sink owns, and chosen on the rows of ``select`` that are no sinks; the map is then fitted
    again on ``train + select``.

    Parameters
    ----------
    strengths : the grid of ``a``; ``(0,)`` for plain least squares, as in the paper.

    Raises
    ------
    GramianError : no map can be folded there, or the moments lack the cut.
    """
    require_foldable(checkpoint, cut.start - 1)
    train, select = folds_of(moments, ("train",)), folds_of(moments, ("select",))
    first = objective(checkpoint, moments, cut, train, sinks=True)
    held = objective(checkpoint, moments, cut, select)
    more = objective(checkpoint, moments, cut, select, sinks=True)
    found = quadratic_ridge(first, held, strengths=strengths, more=more)
    return judged(checkpoint, moments, cut, found.weight, found.relative, int(first.n + more.n))


def judged(
    checkpoint: Checkpoint,
    moments: MomentSet,
    cut: Cut,
    weight: Tensor,
    relative: float,
    rows: int,
) -> Fitted:
    """The fit that ``W = T - I`` is, with its errors from moments alone."""

    fitted = folds_of(moments, ("train", "select"))
    report = objective(checkpoint, moments, cut, folds_of(moments, ("report",)))
    train = objective(checkpoint, moments, cut, fitted)
    every = objective(checkpoint, moments, cut, moments.folds, sinks=True)
    kept = objective(checkpoint, moments, cut, moments.folds)
    sinks = every.value(weight) - kept.value(weight)
    return Fitted(
        cut=cut,
        map=Dense(weight + torch.eye(len(weight), dtype=weight.dtype)),
        relative=relative,
        error_report=_share(report.value(weight), report.c),
        error_train=_share(train.value(weight), train.c),
        error_sinks=_share(sinks, every.c - kept.c) if every.n > kept.n else None,
        rows=rows,
    )


def _share(left: float, whole: float) -> float:
    """Of blocks that add nothing, nothing is lost."""
    return max(0.0, left) / whole if whole > 0 else 0.0
