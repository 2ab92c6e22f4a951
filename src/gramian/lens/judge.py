"""How well early layers predict what the full network will say, on text it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.data import Batch
from gramian.errors import GramianError
from gramian.lens.casts import Casts
from gramian.lens.decode import Reading, Reference, logits
from gramian.maps import Identity, LinearMap
from gramian.moments import RowRule
from gramian.networks.capture import capture
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.rows import kept_rows


@dataclass(frozen=True)
class LayerScore:
    """Means over the judged rows for one layer, cast beside identity (the logit lens)."""

    site: str
    agreement: float
    agreement_identity: float
    precision_at_5: float
    precision_at_5_identity: float
    kl: float
    kl_identity: float
    surprisal: float
    surprisal_identity: float


@dataclass(frozen=True)
class Judgement:
    """Scores of every layer, and the rows behind the early-exit rule."""

    tokens: int
    layers: tuple[LayerScore, ...]
    confidence: Tensor
    """(layers, rows) largest probability of the cast's read-out."""
    agrees: Tensor
    """(layers, rows) True where the cast's first choice is the full network's."""
    position: Tensor
    """(rows,) position of each row in its window."""


def judge(
    checkpoint: Checkpoint,
    casts: Casts,
    batches: Iterable[Batch],
    *,
    rule: RowRule,
    chunk: int = 512,
    progress: Callable[[int], None] | None = None,
) -> Judgement:
    """Decode every layer through its cast and through the identity, beside the full network.

    Parameters
    ----------
    batches : token batches of unseen text; all their folds are used.
    rule : which rows are sinks; those are not judged.
    chunk : rows decoded at a time.
    progress : called with the number of tokens of every batch when it is done.

    Raises
    ------
    GramianError : no row is left to judge.
    """
    blueprint = checkpoint.blueprint
    sites = [cast.site for cast in casts]
    maps: list[tuple[LinearMap, LinearMap]] = [
        (_ready(cast.map, checkpoint), Identity(blueprint.width)) for cast in casts
    ]
    seen: dict[tuple[int, int], list[Reading]] = {}
    positions: list[Tensor] = []
    for batch in batches:
        captured = capture(
            checkpoint.model, blueprint, [*sites, "final"], batch.ids, batch.mask, norms=True
        )
        keep = kept_rows(batch.mask, captured.norms, rule, blueprint)
        where = keep.nonzero()
        positions.append(where[:, 1].cpu())
        for start in range(0, len(where), chunk):
            index = where[start : start + chunk]
            final = captured.rows["final"][index[:, 0], index[:, 1]]
            reference = Reference.of(logits(checkpoint, final))
            for layer, site in enumerate(sites):
                state = captured.rows[site][index[:, 0], index[:, 1]]
                for which, map_ in enumerate(maps[layer]):
                    reading = reference.reading(logits(checkpoint, map_(state)))
                    seen.setdefault((layer, which), []).append(reading)
        if progress:
            progress(int(batch.mask.sum()))
    if not seen:
        raise GramianError("no row is left to judge: the text is empty or has only sink rows")
    joined = {key: _joined(readings) for key, readings in seen.items()}
    layers = tuple(
        _score(site, joined[layer, 0], joined[layer, 1]) for layer, site in enumerate(sites)
    )
    cast_readings = [joined[layer, 0] for layer in range(len(sites))]
    return Judgement(
        tokens=len(cast_readings[0].kl),
        layers=layers,
        confidence=torch.stack([reading.confidence for reading in cast_readings]),
        agrees=torch.stack([reading.rank == 0 for reading in cast_readings]),
        position=torch.cat(positions),
    )


def _ready(map_: LinearMap, checkpoint: Checkpoint) -> LinearMap:
    return map_.to(dtype=torch.float32, device=checkpoint.device)


def _joined(readings: list[Reading]) -> Reading:
    return Reading(
        *(
            torch.cat([getattr(reading, name) for reading in readings]).cpu()
            for name in ("rank", "kl", "surprisal", "confidence")
        )
    )


def _score(site: str, cast: Reading, identity: Reading) -> LayerScore:
    def mean(value: Tensor) -> float:
        return float(value.double().mean())

    return LayerScore(
        site=site,
        agreement=mean(cast.rank == 0),
        agreement_identity=mean(identity.rank == 0),
        precision_at_5=mean(cast.rank < 5),
        precision_at_5_identity=mean(identity.rank < 5),
        kl=mean(cast.kl),
        kl_identity=mean(identity.kl),
        surprisal=mean(cast.surprisal),
        surprisal_identity=mean(identity.surprisal),
    )
