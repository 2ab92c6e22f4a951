"""Plan a smaller cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gramian.compress.compression import Treated, compression
from gramian.compress.kv.allocation import greedy, uniform
from gramian.compress.kv.cutting import How, Method, Metric, cuts
from gramian.compress.kv.layers import AttentionLayer
from gramian.compress.kv.needs import needs
from gramian.compress.kv.parts import Cut
from gramian.errors import GramianError
from gramian.moments import MomentSet
from gramian.networks import CacheLatent, Checkpoint, FoldProjection, Move, Plan
from gramian.networks.draft import Draft

Allocate = Literal["greedy", "uniform"]


@dataclass(frozen=True)
class Shares:
    """What stays of the cache: of all of it, or of keys and of values."""

    keep: float | None
    keys: float | None
    values: float | None

    def __post_init__(self) -> None:
        given = {"keep": self.keep, "keys": self.keys, "values": self.values}
        for name, share in given.items():
            if share is not None and not 0 < share <= 1:
                raise GramianError(f"{name} is {share}, expected a share in (0, 1], such as 0.5")
        if (self.keep is None) == (self.keys is None and self.values is None):
            raise GramianError(
                "expected a share of the whole cache (keep, --keep), or of keys and values apart "
                "(keys and values, --keys and --values)"
            )

    def dealt(self) -> tuple[tuple[str, float], ...]:
        """What is dealt out together, and its share."""
        if self.keep is not None:
            return (("kv", self.keep),)
        return (("k", self.keys or 1.0), ("v", self.values or 1.0))


def plan(
    checkpoint: Checkpoint,
    moments: MomentSet,
    *,
    keep: float | None = None,
    keys: float | None = None,
    values: float | None = None,
    method: Method = "palu",
    groups: str | int | None = None,
    metric: Metric = "read",
    allocate: Allocate = "greedy",
    multiple: int = 1,
    centre: bool = False,
    sinks: float | None = 0.1,
    dense: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """A cache of fewer numbers per token, each direction kept where it loses least.

    ``palu`` (2407.21118) caches what keys and values are before the rotary embedding in the
    leading directions of each group of heads. ``matryoshka`` (2410.14731) has a basis for every
    head, of keys as they are after it. ``svd`` cuts the weights without looking at data, for
    comparison. Ranks are dealt one direction at a time over all layers, keys and values.

    Parameters
    ----------
    keep : share of the cache, in (0, 1], dealt between keys and values.
    keys, values : instead of ``keep``, the share of each; one that is not given stays whole.
    groups : ``"head"``, ``"joint"`` (one basis for all heads of a layer) or heads in a group; by
        default joint, and head for matryoshka.
    metric : ``"read"`` counts errors where they are read, in attention logits and in what the
        output matrix writes; ``"plain"`` counts those of keys and values, as the papers do.
    allocate : ``"greedy"``, or ``"uniform"`` for the same share everywhere.
    multiple : ranks are multiples of this, or whole.
    centre : spend no direction on means, where there is a bias to put them in. Of values that is
        worse than it looks: heads that have nothing to say attend to a first token whose value is
        about zero, and what is left of the mean there counts in full.
    sinks : what sink rows (the first token of a text and its like) weigh in the fit, as a share of
        all rows: attention reads them far more often than they come. None counts each row once.
    dense : multiply the factors out: an ordinary checkpoint that caches as much as before, to
        measure quality with.
    progress : called with layers done and layers in all.

    Raises
    ------
    GramianError : moments of another model or without ``attn_in``, shares out of range, groups
        that do not divide the heads, or a network whose cache cannot be cut so.
    """
    if dense and method == "matryoshka":
        raise GramianError(
            "matryoshka cuts keys behind their rotation, which no weights can do: it has no dense "
            "form (dense, --dense); use method='palu'"
        )
    shares = Shares(keep, keys, values)
    groups = groups or ("head" if method == "matryoshka" else "joint")
    how = How(method, groups, metric, centre, sinks)
    needs(checkpoint).require(checkpoint, moments, "kv")
    found = cuts(checkpoint, moments, how, progress)
    ranks = _ranks(found, shares, allocate, multiple)
    draft = Draft.of(checkpoint)
    moves: list[Move] = []
    treated = []
    parameters = 0
    for cut, chosen in zip(found, ranks, strict=True):
        here = AttentionLayer.of(draft, cut.layer, None)
        made = here.made(cut.kind)
        parameters += made.in_features * made.out_features
        report = moments.moments(here.site, fold="report", sinks=True).through(made)
        rotated = method == "matryoshka" and cut.kind == "k"
        error = None if rotated else cut.error(report, chosen)
        treated.append(Treated(cut.layer, sum(chosen) / cut.width, error, cut.kind))
        if sum(chosen) < cut.width:
            moves.append(_move(here, cut, chosen, rotated=rotated, dense=dense))
    return compression(
        checkpoint,
        moves,
        method=method,
        treated=treated,
        treated_parameters=parameters,
        rows=sum(moments.counts[fold]["rows"] for fold in ("train", "select")),
        width=checkpoint.blueprint.width,
        warnings=_DENSE if dense else (),
        kept={kind: _kept(found, ranks, kind) for kind in ("k", "v")},
        folded=[move.site for move in moves if isinstance(move, CacheLatent) and move.fold],
    )


_DENSE = ("multiplied out, the network caches as much as before; leave dense out to cache less",)


def _kept(found: Sequence[Cut], ranks: Sequence[tuple[int, ...]], kind: str) -> float:
    """The share of all keys or of all values that is kept."""
    pairs = [(sum(r), cut.width) for cut, r in zip(found, ranks, strict=True) if cut.kind == kind]
    return sum(rank for rank, _ in pairs) / sum(width for _, width in pairs)


def _ranks(
    found: Sequence[Cut],
    shares: Shares,
    allocate: Allocate,
    multiple: int,
) -> list[tuple[int, ...]]:
    """The rank of every group of every cut."""
    if allocate not in ("greedy", "uniform"):
        raise GramianError(f"allocate {allocate!r}: expected 'greedy' or 'uniform'")
    if multiple < 1:
        raise GramianError(f"multiple is {multiple}, expected at least 1")
    ranks: dict[int, tuple[int, ...]] = {}
    for kinds, share in shares.dealt():
        here = [i for i, cut in enumerate(found) if cut.kind in kinds]
        curves = [group.values for i in here for group in found[i].groups]
        sizes = [len(curve) for curve in curves]
        if share == 1:
            dealt = sizes
        elif allocate == "uniform":
            dealt = uniform(sizes, share, multiple=multiple)
        else:
            weights = [found[i].weight for i in here for _ in found[i].groups]
            dealt = greedy(curves, weights, int(share * sum(sizes) + 1e-9), multiple=multiple)
        rest = iter(dealt)
        for i in here:
            ranks[i] = tuple(next(rest) for _ in found[i].groups)
    return [ranks[i] for i in range(len(found))]


def _move(
    layer: AttentionLayer, cut: Cut, ranks: tuple[int, ...], *, rotated: bool, dense: bool
) -> Move:
    map = cut.map(ranks)
    site = layer.site.replace("attn_in", cut.kind)
    if rotated:
        return CacheLatent(f"{site}_rope", map, ranks)
    if dense:
        return FoldProjection(site, map)
    return CacheLatent(site, map, ranks, fold=cut.kind == "v" and layer.folds(map, ranks))
