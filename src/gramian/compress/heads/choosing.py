"""Which heads of one layer stay."""

from __future__ import annotations

from gramian.compress.narrowing import Narrowing, kept_by
from gramian.errors import GramianError
from gramian.networks.attention_heads import AttentionHeads
from gramian.solvers.eliminate import eliminate


def allowed(shape: AttentionHeads, *, within: bool, keep: int | float) -> int:
    """The number of query heads to keep, from a number or a share of them.

    Raises
    ------
    GramianError : a number out of range, or one that breaks groups.
    """
    if within and shape.group == 1:
        raise GramianError(
            "every query head has keys and values of its own here: leave out within (--within), "
            "there is nothing to take inside a group"
        )
    step = shape.keys if within else shape.group
    if isinstance(keep, float):
        return min(max(1, int(keep * shape.count / step + 0.5)) * step, shape.count)
    if not 1 <= keep <= shape.count or keep % step:
        numbers = ", ".join(str(i) for i in range(step, shape.count + 1, step))
        how = (
            f"as many of each of the {shape.keys} groups"
            if within
            else f"whole groups of {shape.group} that share keys and values"
        )
        raise GramianError(
            f"cannot keep {keep} of {shape.count} query heads, {how}: expected {numbers}"
        )
    return keep


def choose(
    layer: Narrowing, shape: AttentionHeads, number: int, *, within: bool, select: str
) -> tuple[int, ...]:
    """The query heads that stay, ascending."""
    if number >= shape.count:
        return tuple(range(shape.count))
    block = shape.width * (1 if within else shape.group)
    count = layer.train.d // block
    gone = count - (number if within else number // shape.group)
    labels = [head // shape.group for head in range(shape.count)] if within else None
    if select == "eliminate":
        left = eliminate(
            layer.weight, layer.second, gone, ridge=layer.noise, block=block, quota=labels
        )
        blocks = left.tolist()
    else:
        blocks = _loudest(layer, block, count - gone, labels)
    each = 1 if within else shape.group
    return tuple(head for one in blocks for head in range(one * each, (one + 1) * each))


def _loudest(layer: Narrowing, block: int, number: int, labels: list[int] | None) -> list[int]:
    """The blocks whose own output is longest, as many of every label."""
    count = layer.train.d // block
    energy = layer.train.mean.new_empty(count)
    for one in range(count):
        own = slice(one * block, (one + 1) * block)
        weight = layer.weight[:, own]
        energy[one] = ((weight @ layer.second[own, own]) * weight).sum()
    if labels is None:
        found: list[int] = kept_by(energy, number).tolist()
        return found
    each = number // len(set(labels))
    order = sorted(range(count), key=lambda one: -float(energy[one]))
    taken: list[int] = []
    for label in set(labels):
        taken += [one for one in order if labels[one] == label][:each]
    return sorted(taken)
