"""How much every block, and every cut, changes the residual stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

from gramian.compress.depth.cut import Cut, StreamChange
from gramian.compress.depth.fit import foldable, folds_of, objective
from gramian.compress.depth.needs import needs_of_cut, needs_of_scores
from gramian.compress.depth.sink import SinkWriter, sink_writer
from gramian.errors import GramianError
from gramian.measures import linearity
from gramian.moments import MomentSet, Pair
from gramian.networks.checkpoint import Checkpoint
from gramian.registry import method
from gramian.solvers import quadratic_ridge

By = Literal["angular", "influence", "residual"]
"""What a cut is chosen by."""


@dataclass(frozen=True)
class BlockScore:
    """One block, on rows that are no sinks unless said."""

    layer: int
    cosine: float
    """Mean cosine of the stream before and after it."""
    angular: float
    """``arccos(cosine) / pi``."""
    influence: float
    """``1 - cosine``."""
    change: float
    """Squared length of what it adds over that of the stream after it."""
    explained: float | None
    """Share of what it adds that a linear map of the MLP output before it gives back, on
    ``report``; below zero where the map does more harm than good. None where no map can go."""
    linearity: float | None
    """Share of the variance of its output that an affine map of its input explains (in sample);
    None where that pair was not collected."""
    cosine_sinks: float | None
    """Mean cosine of the sink rows before and after it; None without sinks."""

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)


@dataclass(frozen=True)
class Scores:
    """All blocks of a network."""

    blocks: tuple[BlockScore, ...]
    sink_writer: SinkWriter | None
    rows: StreamChange
    sinks: StreamChange

    def cosine(self, cut: Cut) -> float:
        """Mean cosine of the stream before and after a cut."""
        return self.rows.cosines[cut.start, cut.end]

    def angular(self, cut: Cut) -> float:
        """``arccos`` of the mean cosine over pi: of the sink rows where that is larger.

        A cut that leaves out the writer of the attention sink looks harmless on all other rows.
        """
        found = [s.cosines[cut.start, cut.end] for s in (self.rows, self.sinks) if s.count > 0]
        return max(map(angle, found))


def angle(cosine: float) -> float:
    """``arccos(cosine) / pi``, from 0 to 1."""
    return math.acos(min(1.0, max(-1.0, cosine))) / math.pi


@method("block_influence", job="compress", paper="2403.03853")
def scores(checkpoint: Checkpoint, moments: MomentSet, *, fits: bool = True) -> Scores:
    """Cosine, angular distance, block influence, explained variance and linearity of each block.

    Cosines are means over all collected rows (the papers read the last token of a text), sink
    rows apart.

    Parameters
    ----------
    fits : also solve for explained variance and linearity, where the moments hold their pairs.

    Raises
    ------
    GramianError : moments of another model, or without the stream's cosines and distances.
    """
    needs_of_scores(checkpoint).require(checkpoint, moments, "depth")
    blueprint = checkpoint.blueprint
    folds = moments.folds
    rows = StreamChange.of(blueprint, moments, folds)
    sinks = StreamChange.of(blueprint, moments, folds, sinks=True)
    if rows.count <= 0:
        raise GramianError("every row of these moments is a sink row; collect more text")
    residual = blueprint.residual_sites()
    pairs = set(moments.pairs)
    found = []
    for layer, (before, after) in enumerate(pairwise(residual)):
        step = (layer, layer + 1)
        linear = None
        if fits and {Pair(before, after), Pair(before, after, True)} & pairs:
            linear = linearity(moments.joint(before, after, fold=folds))
        length = rows.lengths[layer + 1]
        found.append(
            BlockScore(
                layer=layer,
                cosine=rows.cosines[step],
                angular=angle(rows.cosines[step]),
                influence=1.0 - rows.cosines[step],
                change=rows.distances[step] / length if length > 0 else 0.0,
                explained=explained(checkpoint, moments, Cut(layer, 1)) if fits else None,
                linearity=linear,
                cosine_sinks=sinks.cosines[step] if sinks.count > 0 else None,
            )
        )
    return Scores(tuple(found), sink_writer(rows, sinks), rows, sinks)


def explained(checkpoint: Checkpoint, moments: MomentSet, cut: Cut) -> float | None:
    """Share of what a cut's blocks add that least squares gives back, on ``report``."""
    if not fitted_from(checkpoint, moments, cut):
        return None
    fit = objective(checkpoint, moments, cut, folds_of(moments, ("train", "select")), sinks=True)
    held = objective(checkpoint, moments, cut, folds_of(moments, ("report",)))
    strength = 1e-3 if fit.n <= len(fit.A) else 0.0
    weight = quadratic_ridge(fit, strengths=(strength,)).weight
    return 1.0 - held.value(weight) / held.c if held.c > 0 else None


def fitted_from(checkpoint: Checkpoint, moments: MomentSet, cut: Cut) -> bool:
    """Whether a map can stand for the cut, and the moments hold what its fit reads."""
    if cut.start < 1 or not foldable(checkpoint, cut.start - 1):
        return False
    wanted = needs_of_cut(checkpoint, cut.start, cut.count)
    return not wanted.missing(moments, checkpoint.blueprint).items


def price(
    checkpoint: Checkpoint, moments: MomentSet, scored: Scores, by: By
) -> Callable[[Cut], float]:
    """What a cut costs: the smaller, the better to leave out. Costs of several cuts add.

    ``angular``: of the stream before and after it, sink rows judged too. ``influence``: of its
    blocks one by one (ShortGPT). ``residual``: the squared error that its least squares map
    leaves on ``select``, over the squared length of the stream there, of the sink rows where that
    is larger.
    """
    if by == "angular":
        return scored.angular
    if by == "influence":
        return lambda cut: sum(scored.blocks[layer].influence for layer in cut.layers)
    if by != "residual":
        raise GramianError(f"by is {by!r}, expected one of {', '.join(get_args(By))}")

    def residual(cut: Cut) -> float:
        fit = objective(checkpoint, moments, cut, folds_of(moments, ("train",)), sinks=True)
        strength = 1e-3 if fit.n <= len(fit.A) else 0.0
        weight = quadratic_ridge(fit, strengths=(strength,)).weight
        fold = folds_of(moments, ("select",))
        rows = objective(checkpoint, moments, cut, fold)
        every = objective(checkpoint, moments, cut, fold, sinks=True)
        found = [rows.value(weight) / (rows.n * scored.rows.lengths[cut.end])]
        sinks = every.n - rows.n
        if sinks > 0:
            left = every.value(weight) - rows.value(weight)
            found.append(left / (sinks * scored.sinks.lengths[cut.end]))
        return max(found)

    return residual
