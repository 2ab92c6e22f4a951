"""A smaller network cut from a larger one: a start for training, not a finished model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

from gramian.compress.resize.cutting import Cut, Rescale, cut
from gramian.compress.resize.document import resizing
from gramian.compress.resize.needs import needs
from gramian.compress.resize.shape import Shape, positive, require_dense, shape_of
from gramian.compress.resize.weighing import Weighing
from gramian.errors import GramianError
from gramian.moments import MomentSet
from gramian.networks import Checkpoint, DropLayers, Move, Plan
from gramian.networks.draft import Draft
from gramian.registry import method

Heads = tuple[int, int]
START = (
    "this is a start for training, not a finished model: train it before use, and compare with "
    "gramian compress where no training is planned"
)
BLIND = (
    "chosen by the lengths of weights alone, which miss what data uses: the loss can start above "
    "that of random numbers; collect with --for resize and give the moments"
)


@method("weight subcloning", job="resize", paper="2312.09299")
def shrink(
    checkpoint: Checkpoint,
    moments: MomentSet | None = None,
    *,
    width: int | None = None,
    mlp: int | None = None,
    heads: Heads | None = None,
    layers: int | None = None,
    rescale: Rescale = "variance",
    refit: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """A smaller network from the features, neurons, heads and blocks that do most.

    A feature counts by the length of what it adds to all that reads it, ``sqrt(E x_j^2) |W_j|``
    summed over all places (one choice for the whole residual stream), a neuron and a head by what
    it adds to the stream; the middle blocks go, the first and the last stay. What is left is
    rescaled so that the matrices give outputs of the same variance.

    Parameters
    ----------
    moments : collected with ``needs(checkpoint)``; without them ``E x_j^2`` is taken from the
        lengths of the rows that make a feature, which is a poor guide.
    width, mlp : features of the stream, neurons of an MLP.
    heads : query heads and heads of keys and values. Groups that share a key stay whole, or every
        group keeps as many.
    layers : blocks that stay.
    rescale : ``"variance"`` measures the variance that is lost (by features apart), so that
        leaving out what is always zero rescales nothing; ``"count"`` multiplies by
        ``sqrt(n / n')``, the rule of the paper; ``"none"``.
    refit : in place of rescaling, fit what every matrix reads by least squares (needs whole
        moments): ``W_s + W_g C_gs C_ss^-1``. The head, which may be the token table, is rescaled.
    progress : called with the layers done and the layers in all.

    Raises
    ------
    GramianError : a size above the present one, heads that do not divide, experts, moments of
        another model or without what is read, refit without moments.
    """
    if rescale not in get_args(Rescale):
        raise GramianError(f"rescale is {rescale!r}, expected one of {get_args(Rescale)}")
    if refit and moments is None:
        raise GramianError("refit fits second moments; collect with --for resize and give them")
    old = shape_of(checkpoint)
    if any(size is not None for size in (width, mlp, heads)):
        require_dense(old, checkpoint.blueprint.model_type)
    new = _wanted(checkpoint, old, width, mlp, heads, layers)
    if moments is not None:
        needs(checkpoint, refit=refit).require(checkpoint, moments, "resize")
    moves: list[Move] = []
    draft = Draft.of(checkpoint)
    if new.layers < old.layers:
        first = (new.layers + 1) // 2
        moves.append(DropLayers(tuple(range(first, first + old.layers - new.layers))))
        draft = moves[0].rewrite(draft)
    made: Cut | None = None
    if replace(new, layers=old.layers) != old:
        made = cut(Weighing(draft, moments), old, new, rescale, refit, progress)
        moves.append(made.move)
    warnings = [START] if moves else []
    if made is not None:
        warnings += [BLIND] if moments is None else []
        warnings += made.warnings
    told: dict[str, Any] = {"importance": "weights" if moments is None else "moments"}
    if made is not None and made.rows_per_dimension is not None:
        told["rows_per_dimension"] = made.rows_per_dimension
    return resizing(
        checkpoint,
        moves,
        method="shrink",
        unchanged=() if moves else ("every size is the present one",),
        layers=() if made is None else made.layers,
        warnings=warnings,
        rescale="refit" if refit else rescale,
        **told,
    )


def _wanted(
    checkpoint: Checkpoint,
    old: Shape,
    width: int | None,
    mlp: int | None,
    heads: Heads | None,
    layers: int | None,
) -> Shape:
    given = {"width": width, "mlp": mlp, "layers": layers}
    sizes = {name: positive(value, name) for name, value in given.items() if value is not None}
    if not sizes and heads is None:
        raise GramianError("nothing shrinks: give a width, mlp, heads or layers")
    new = replace(old, **sizes)
    if heads is None and new.width != old.width:
        heads = _tied_heads(checkpoint, old, new.width)
    if heads is not None:
        queries, keys = (positive(value, "heads") for value in heads)
        if queries % keys:
            raise GramianError(
                f"heads {queries}/{keys}: {queries} query heads do not divide by {keys} heads of "
                "keys"
            )
        if queries // keys > old.heads // old.keys:
            raise GramianError(
                f"heads {queries}/{keys}: {queries // keys} query heads for every head of keys, "
                f"of which {checkpoint.name} has {old.heads // old.keys}"
            )
        new = replace(new, heads=queries, keys=keys)
    for name in ("width", "mlp", "heads", "keys", "layers"):
        if getattr(new, name) > getattr(old, name):
            raise GramianError(
                f"{name} {getattr(new, name)} is more than the {getattr(old, name)} of "
                f"{checkpoint.name}; use grow"
            )
    return new


def _tied_heads(checkpoint: Checkpoint, old: Shape, width: int) -> Heads | None:
    """As many heads as a width has where the architecture derives the width of a head."""
    if getattr(checkpoint.config, "head_dim", None) is not None:
        return None
    queries, left = divmod(width, old.head_dim)
    keys, rest = divmod(queries * old.keys, old.heads)
    if left or rest or old.heads * old.head_dim != old.width:
        return None
    return queries, keys
