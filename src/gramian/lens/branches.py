"""A sub-module replaced by its cast: how much of what it does is linear (arXiv 2303.09435)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gramian.data import Batch
from gramian.errors import GramianError
from gramian.lens.casts import Casts
from gramian.lens.decode import Reference
from gramian.maps import LinearMap
from gramian.moments import RowRule
from gramian.networks.blueprint import Blueprint
from gramian.networks.capture import capture, watching
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.rows import kept_rows


@dataclass(frozen=True)
class BranchScore:
    """The network with one attention or MLP replaced, against the whole network."""

    site: str
    """What the branch reads."""
    agreement: float
    """Share of rows with the same first choice, the branch replaced by its cast."""
    agreement_dropped: float
    """The same, the branch left out: the baseline."""
    kl: float
    kl_dropped: float


@contextmanager
def replaced(
    model: nn.Module, blueprint: Blueprint, source: str, target: str, map_: LinearMap | None
) -> Iterator[None]:
    """While open, the site ``target`` is ``map_`` of the site ``source``, or zero."""
    seen: dict[str, Tensor] = {}
    tap = blueprint.tap(target)

    def after(_module: nn.Module, _args: Any, output: Any) -> Any:
        first = output[0] if isinstance(output, tuple) else output
        new = torch.zeros_like(first)
        if map_ is not None:
            new = map_(seen[source]).to(first.dtype).reshape(first.shape)
        return (new, *output[1:]) if isinstance(output, tuple) else new

    with watching(model, {source: blueprint.tap(source)}, seen):
        handle = model.get_submodule(tap.path).register_forward_hook(after)
        try:
            yield
        finally:
            handle.remove()


def judge_branches(
    checkpoint: Checkpoint,
    casts: Casts,
    batches: Iterable[Batch],
    *,
    rule: RowRule,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[BranchScore, ...]:
    """Replace one branch at a time by its cast, and by nothing, and compare the predictions.

    Two forward passes per layer and batch. Sink rows are not judged, but the branch is replaced
    at every position.

    Parameters
    ----------
    casts : from :func:`gramian.lens.solve` with target ``attn`` or ``mlp``.
    progress : called with the passes done and the passes in all.

    Raises
    ------
    GramianError : casts of another target, or no row left to judge.
    """
    if casts.target not in ("attn", "mlp"):
        raise GramianError(f"casts to the {casts.target} layer: expected those of attn or mlp")
    model, blueprint = checkpoint.model, checkpoint.blueprint
    every = list(batches)
    maps = [c.map.to(dtype=torch.float32, device=checkpoint.device) for c in casts]
    sums = torch.zeros(len(casts), 4, dtype=torch.float64)
    rows = done = 0
    for batch in every:
        full = capture(model, blueprint, (), batch.ids, batch.mask, norms=True, logits=True)
        keep = kept_rows(batch.mask, full.norms, rule, blueprint)
        reference = Reference.of(full.rows["logits"][keep])
        rows += int(keep.sum())
        for i, cast in enumerate(casts):
            for j, map_ in enumerate((maps[i], None)):
                with replaced(model, blueprint, cast.site, cast.target, map_):
                    other = capture(model, blueprint, (), batch.ids, batch.mask, logits=True)
                reading = reference.reading(other.rows["logits"][keep])
                sums[i, j] += float((reading.rank == 0).sum())
                sums[i, 2 + j] += float(reading.kl.double().sum())
                done += 1
                if progress:
                    progress(done, 2 * len(casts) * len(every))
    if rows == 0:
        raise GramianError("no row is left to judge: the text is empty or has only sink rows")
    means = (sums / rows).tolist()
    return tuple(BranchScore(cast.site, *scores) for cast, scores in zip(casts, means, strict=True))
