"""Plan fewer directions for every linear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from torch import Tensor

from gramian.compress.compression import Of, Treated, compression, share_of_layers
from gramian.compress.parameters import parameters_of
from gramian.compress.rank.fitting import Fitted
from gramian.compress.rank.matrices import Linear, left_out, linears_of
from gramian.compress.rank.solving import Solved, solve
from gramian.errors import GramianError
from gramian.maps import Affine, Identity, LowRank
from gramian.moments import MomentSet
from gramian.networks import Checkpoint, FoldOutputs, Move, Plan, SetLinear, SplitLinear
from gramian.registry import method
from gramian.solvers import allocate as allocation
from gramian.solvers.allocate import Ranks
from gramian.solvers.truncate import Metric

Allocate = Literal["greedy", "uniform", "energy", "threshold"]


@method("rank", job="compress", paper="2403.07378")
def plan(
    checkpoint: Checkpoint,
    moments: MomentSet,
    *,
    keep: float = 0.8,
    of: Of = "layers",
    allocate: Allocate = "greedy",
    by_type: bool = False,
    multiple: int | None = None,
    metric: Metric = "full",
    alpha: float = 0.5,
    shrink: float = 0.0,
    centred: bool | None = None,
    output_metrics: Mapping[str, Tensor] | None = None,
    dense: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Two thin factors in the place of linears, whose outputs are nearest to the linears' own.

    Factors are solved from the rows of ``train`` and ``select``, sinks among them; the predicted
    error of each linear is stated on ``report``, for the inputs that it had, as a share of the
    squared length of its outputs. A linear whose factors would not be smaller stays whole.

    Parameters
    ----------
    keep : share of the parameters of the blocks' linears, or with ``of="model"`` of all.
    allocate : ``greedy``: least sum of relative errors for the parameters. ``uniform``: one share
        for all. ``energy``: one share of energy (LiteASR, 2502.20583). ``threshold``: one cut of
        scaled singular values (WeLore, 2407.11239).
    by_type : the same share for the linears of each name, allocated among these alone.
    multiple : ranks are multiples of it; 16 for ``energy``, else 1, by default.
    metric, alpha, shrink : ``full``, ``diag`` (ASVD) or ``none`` (plain singular values), see
        :func:`gramian.solvers.truncation`.
    centred : True restores the mean output of each linear by its bias, and gives one to those
        that have none where the architecture has a place for it; None does so where there is a
        bias; False never.
    output_metrics : parameter name -> what errors of its outputs cost, (out,) or (out, out):
        Fisher information of rows (FWSVD), second moments of gradients.
    dense : multiply the factors out: no smaller, and an ordinary checkpoint.
    progress : called after every linear with those done and all.

    Raises
    ------
    GramianError : moments of another model, or without what is read (collect with ``--for rank``);
        a share that cannot be kept; an unknown option; an architecture that is only read.
    """
    _check_rule(allocate)
    _share(checkpoint, linears_of(checkpoint), keep, of)
    solved = solve(
        checkpoint,
        moments,
        metric=metric,
        alpha=alpha,
        shrink=shrink,
        centred=centred,
        output_metrics=output_metrics,
        progress=progress,
    )
    return plan_solved(
        checkpoint,
        solved,
        keep=keep,
        of=of,
        allocate=allocate,
        by_type=by_type,
        multiple=multiple,
        dense=dense,
    )


def plan_solved(
    checkpoint: Checkpoint,
    solved: Solved,
    *,
    keep: float = 0.8,
    of: Of = "layers",
    allocate: Allocate = "greedy",
    by_type: bool = False,
    multiple: int | None = None,
    dense: bool = False,
) -> Plan:
    """`plan` for linears that `solve` has truncated: one solution serves all sizes."""
    _check_rule(allocate)
    fitted = solved.linears
    linears = [one.linear for one in fitted]
    ranks = _ranks(fitted, _share(checkpoint, linears, keep, of), allocate, multiple, by_type)
    entries = [
        Treated(one.linear.layer, one.kept(rank), one.error(rank), one.linear.part)
        for one, rank in zip(fitted, ranks, strict=True)
    ]
    experts = left_out(checkpoint)
    learnt = solved.options.metric != "none"
    return compression(
        checkpoint,
        moves(fitted, ranks, dense=dense),
        method="rank",
        treated=entries,
        treated_parameters=sum(linear.whole for linear in linears),
        rows=solved.rows if learnt else None,
        width=max(min(linear.shape) for linear in linears) if learnt else None,
        warnings=[f"{experts} expert tensors stay as they are"] if experts else [],
        allocate=allocate,
        metric=solved.options.metric,
        centred=sum(one.truncation.constant is not None for one in fitted),
        dense=dense,
        ranks={one.linear.matrix.weight: rank for one, rank in zip(fitted, ranks, strict=True)},
    )


def moves(fitted: Sequence[Fitted], ranks: Ranks, *, dense: bool) -> list[Move]:
    """The factors first, then what they add to biases."""
    found: list[Move] = []
    shifts: list[Move] = []
    for one, rank in zip(fitted, ranks, strict=True):
        if rank is None:
            continue
        name, map = one.linear.matrix.weight, one.truncation.map(rank)
        if isinstance(map, Affine):
            still = Identity(map.out_features)
            shifts.append(FoldOutputs(name, Affine(still, map.bias)))
            map = map.map
        assert isinstance(map, LowRank)
        found.append(SetLinear(name, map) if dense else SplitLinear(name, map))
    return found + shifts


def _check_rule(allocate: str) -> None:
    if allocate not in get_args(Allocate):
        known = ", ".join(get_args(Allocate))
        raise GramianError(f"allocate is {allocate!r}, expected one of {known}")


def _share(checkpoint: Checkpoint, linears: Sequence[Linear], keep: float, of: Of) -> float:
    treated = sum(linear.whole for linear in linears)
    return share_of_layers(
        keep, of, treated_parameters=treated, model_parameters=parameters_of(checkpoint)
    )


def _ranks(
    fitted: Sequence[Fitted],
    keep: float,
    allocate: Allocate,
    multiple: int | None,
    by_type: bool,
) -> Ranks:
    """A rank for every linear, or None where it stays whole."""
    step = multiple if multiple is not None else 16 if allocate == "energy" else 1
    rules: dict[str, Callable[..., Ranks]] = {
        "greedy": allocation.greedy,
        "uniform": allocation.uniform,
        "energy": allocation.energy,
        "threshold": allocation.threshold,
    }
    groups: dict[str, list[int]] = {}
    for i, one in enumerate(fitted):
        groups.setdefault(one.linear.part if by_type else "", []).append(i)
    ranks: dict[int, int | None] = {}
    for indices in groups.values():
        curves = [fitted[i].curve for i in indices]
        ranks |= zip(indices, rules[allocate](curves, keep=keep, multiple=step), strict=True)
    return tuple(ranks[i] for i in range(len(fitted)))
