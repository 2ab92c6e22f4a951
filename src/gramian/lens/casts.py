"""Casts: the linear maps from one place of a network to a later one (arXiv 2303.09435)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import torch

from gramian.errors import GramianError
from gramian.lens.needs import needs
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import FOLDS, JointMoments, MomentSet
from gramian.networks.checkpoint import Checkpoint
from gramian.registry import method
from gramian.solvers import Evidence, ridge

Kind = Literal["affine", "linear"]
Target = Literal["last", "next", "attn", "mlp"]


@dataclass(frozen=True)
class Cast:
    """One map and how well it does."""

    site: str
    target: str
    map: LinearMap
    evidence: Evidence

    @property
    def r2(self) -> float:
        """Share of the target's variance explained on the ``report`` fold."""
        return self.evidence.r2["report"]


@dataclass(frozen=True)
class Casts:
    """Casts of one family, by source site in network order."""

    model: str
    target: Target
    kind: Kind
    casts: tuple[Cast, ...]

    def __getitem__(self, site: str) -> Cast:
        for cast in self.casts:
            if cast.site == site:
                return cast
        raise GramianError(f"no cast from {site!r}; there are {[c.site for c in self.casts]}")

    def __iter__(self) -> Iterator[Cast]:
        return iter(self.casts)

    def __len__(self) -> int:
        return len(self.casts)


def places(checkpoint: Checkpoint, target: Target) -> list[tuple[str, str]]:
    """(source, target) sites of every cast of a family."""
    blueprint = checkpoint.blueprint
    residual = blueprint.residual_sites()
    match target:
        case "last":
            return [(site, "final") for site in residual[:-1]]
        case "next":
            return list(pairwise(residual))
        case "attn" | "mlp":
            return [(f"{i}.{target}_in", f"{i}.{target}_out") for i in range(blueprint.depth)]
    raise GramianError(f"target {target!r}: expected 'last', 'next', 'attn' or 'mlp'")


@method("mat", job="lens", paper="2303.09435")
def solve(
    checkpoint: Checkpoint,
    moments: MomentSet,
    *,
    target: Target = "last",
    kind: Kind = "affine",
    lambdas: Sequence[float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Casts:
    """Cast every layer's residual stream to the last (or next) layer, by least squares.

    The strength of the ridge is chosen on ``select``; the map is refitted on ``train`` and
    ``select`` and judged on ``report``. Residual casts are fitted to the increment ``y - x``, so
    the ridge shrinks towards "nothing changes", not towards zero. Sink rows are left out.

    Parameters
    ----------
    target : ``last`` (input of the final norm), ``next`` (one layer on), ``attn`` or ``mlp``
        (from what the branch reads to what it adds).
    kind : ``linear`` as in the paper (no intercept), or ``affine``.
    lambdas : the grid of the ridge, relative to the median eigenvalue; ``(0,)`` fits without one.

    Raises
    ------
    GramianError : moments of another model, or collected without what the lens needs.

    Examples
    --------
    >>> casts = gm.lens.solve(base, m)            # doctest: +SKIP
    >>> casts["12.resid_pre"].r2                  # doctest: +SKIP
    """
    check(checkpoint, moments, submodules=target in ("attn", "mlp"))
    found: list[Cast] = []
    wanted = places(checkpoint, target)
    residual = target in ("last", "next")
    for done, (source, goal) in enumerate(wanted):
        folds = {fold: moments.joint(source, goal, fold=fold, increment=residual) for fold in FOLDS}
        solution = ridge(
            folds["train"],
            folds["select"],
            folds["report"],
            intercept=kind == "affine",
            lambdas=lambdas,
        )
        map_, evidence = solution.map, solution.evidence
        if residual:
            evidence = replace(evidence, r2=_r2(evidence, folds))
            map_ = _plus_identity(map_)
        found.append(Cast(source, goal, map_, evidence))
        if progress:
            progress(done + 1, len(wanted))
    return Casts(checkpoint.name, target, kind, tuple(found))


def check(checkpoint: Checkpoint, moments: MomentSet, *, submodules: bool = False) -> None:
    """Refuse moments of other weights, or moments without what the lens reads."""
    needs(checkpoint, submodules=submodules).require(checkpoint, moments, "lens")


def _plus_identity(map_: LinearMap) -> LinearMap:
    """The map of the whole state, from the map of its increment: ``x + (W x + b)``."""
    if isinstance(map_, Affine):
        return Affine(_plus_identity(map_.map), map_.bias)
    weight = map_.to_dense()
    return Dense(weight + torch.eye(weight.shape[0], dtype=weight.dtype))


def _r2(evidence: Evidence, folds: Mapping[str, JointMoments]) -> dict[str, float]:
    """Per fold, the explained share of the variance of the whole target ``y = x + (y - x)``: the
    error of the increment's map is the error of the whole state's."""

    def variance(joint: JointMoments) -> float:
        # tr Syy = tr Sxx + 2 tr Sx(y-x) + tr S(y-x)(y-x)
        return joint.x.trace + 2 * float(joint.cross.trace()) + joint.y.trace

    return {
        fold: 1 - evidence.errors[fold] * joint.count / variance(joint)
        for fold, joint in folds.items()
    }
