"""From moments to the directions of every layer's keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gramian.compress.kv.attended import attended, check_sinks
from gramian.compress.kv.layers import AttentionLayer, Kind, Rotation, rotation_of
from gramian.compress.kv.parts import Cut
from gramian.errors import GramianError
from gramian.moments import Moments, MomentSet
from gramian.networks import Checkpoint
from gramian.networks.draft import Draft
from gramian.solvers.latent import Latent, latent
from gramian.solvers.spectrum import about

Method = Literal["palu", "matryoshka", "svd"]
Metric = Literal["read", "plain"]
METHODS, METRICS = ("palu", "matryoshka", "svd"), ("read", "plain")


@dataclass(frozen=True)
class How:
    """How the directions are found."""

    method: Method
    groups: str | int
    """``"head"``, ``"joint"``, or heads in a group."""
    metric: Metric
    """What an error counts: where it is read (attention logits, the output matrix), or alike."""
    centre: bool
    sinks: float | None = None
    """The share of all weight that sink rows have; None counts every row once."""

    def __post_init__(self) -> None:
        check_sinks(self.sinks)
        if self.method not in METHODS:
            raise GramianError(f"method {self.method!r}: expected one of {', '.join(METHODS)}")
        if self.metric not in METRICS:
            raise GramianError(f"metric {self.metric!r}: expected one of {', '.join(METRICS)}")
        if self.method == "matryoshka" and self.groups != "head":
            raise GramianError(
                "matryoshka has a basis for every head; expected groups='head' (--groups head), "
                "or method='palu' for bases that heads share"
            )

    def size(self, heads: int) -> int:
        """Heads in a group, of that many heads of keys.

        Raises
        ------
        GramianError : neither a word nor a number that divides them.
        """
        if self.groups == "head":
            return 1
        if self.groups == "joint":
            return heads
        text = str(self.groups)
        if not text.isdecimal() or not int(text) or heads % int(text):
            raise GramianError(
                f"groups {self.groups!r}: expected 'head', 'joint', or a number that divides the "
                f"{heads} heads of keys"
            )
        return int(text)


def cuts(
    checkpoint: Checkpoint,
    moments: MomentSet,
    how: How,
    progress: Callable[[int, int], None] | None = None,
) -> list[Cut]:
    """The directions of keys and values of every layer, keys first.

    Raises
    ------
    GramianError : the method cannot be used on this network.
    """
    draft = Draft.of(checkpoint)
    found: list[Cut] = []
    rotations: dict[str | None, Rotation | None] = {}
    for layer in checkpoint.blueprint.layers:
        name = _rotation_name(checkpoint, layer.index)
        if name not in rotations:
            rotations[name] = rotation_of(checkpoint, layer.index, moments.recipe.length)
        here = AttentionLayer.of(draft, layer.index, rotations[name])
        rows = attended(moments, here.site, how.sinks)
        found += (_keys(here, rows, how), _values(here, rows, how))
        if progress:
            progress(layer.index + 1, checkpoint.blueprint.depth)
    return found


def _rotation_name(checkpoint: Checkpoint, index: int) -> str | None:
    types = getattr(checkpoint.config, "layer_types", None)
    return None if types is None else str(types[index])


def _keys(layer: AttentionLayer, rows: Moments, how: How) -> Cut:
    if how.method == "matryoshka":
        return _rotated_keys(layer, rows, how)
    second, kept = _second(layer, "k", rows, how)
    metric = None
    if how.metric == "read" and how.method != "svd" and not layer.normed:
        metric = layer.query_metrics(rows)
    groups = _grouped(second, metric, layer, how)
    return Cut(layer.layer.index, "k", groups, kept, _key_weight(groups, metric, layer))


def _rotated_keys(layer: AttentionLayer, rows: Moments, how: How) -> Cut:
    """Keys as they are cached: behind the rotation. Their mean changes no attention weight."""
    if layer.normed:
        raise GramianError(
            f"layer {layer.layer.index} normalises queries and keys before it rotates them: their "
            "moments do not follow from its input; use method='palu', which cuts keys before both"
        )
    keys = rows.through(layer.made("k"))
    metrics = layer.query_metrics(rows) if how.metric == "read" else None
    found = []
    for head in range(layer.heads.keys):
        one = keys.select(layer.heads.columns([head]))
        second, mean = one.raw() / one.count, one.mean
        if layer.rotation is not None:
            second, mean = layer.rotation.average(second), layer.rotation.mean(mean)
        metric = None if metrics is None else metrics[head]
        found.append(latent(second - torch.outer(mean, mean), metric))
    none = torch.zeros(layer.width("k"), dtype=torch.float64)
    groups = tuple(found)
    return Cut(layer.layer.index, "k", groups, none, _key_weight(groups, metrics, layer))


def _key_weight(
    groups: Sequence[Latent], metric: Sequence[Tensor] | None, layer: AttentionLayer
) -> float:
    """Of errors in logits their mean square over query heads, scaled as the softmax sees them.

    To first order an error ``e_j`` in the logits moves the output by ``sum a_j e_j (v_j - z)``,
    about ``e`` times its length, so that a squared error in logits stands beside a share of the
    output lost with values.
    """
    return _share(groups) if metric is None else layer.scaling**2 / layer.heads.count


def _share(groups: Sequence[Latent]) -> float:
    """What makes errors shares of all that the groups carry."""
    total = sum(group.total for group in groups)
    return 1 / total if total > 0 else 1.0


def _values(layer: AttentionLayer, rows: Moments, how: How) -> Cut:
    second, kept = _second(layer, "v", rows, how)
    metric = None
    if how.metric == "read" and how.method != "svd":
        metric = layer.output_metrics()
    groups = _grouped(second, metric, layer, how)
    return Cut(layer.layer.index, "v", groups, kept, _share(groups))


def _second(layer: AttentionLayer, kind: Kind, rows: Moments, how: How) -> tuple[Tensor, Tensor]:
    """Second moments of keys or values about what is put back, and that."""
    made = layer.made(kind)
    if how.method == "svd":
        weight = made.to_dense(torch.float64)
        return weight @ weight.T, made.bias
    passed = rows.through(made)
    kept = passed.mean if how.centre and layer.has_slot(kind) else made.bias
    return about(passed, kept) / passed.count, kept


def _grouped(
    second: Tensor, metric: Sequence[Tensor] | None, layer: AttentionLayer, how: How
) -> tuple[Latent, ...]:
    size, d = how.size(layer.heads.keys), layer.heads.width
    found = []
    for start in range(0, layer.heads.keys, size):
        rows = slice(start * d, (start + size) * d)
        weight = None if metric is None else torch.block_diag(*metric[start : start + size])
        found.append(latent(second[rows, rows].contiguous(), weight))
    return tuple(found)
