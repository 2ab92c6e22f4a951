"""A plan that rotates the residual stream into its principal directions and keeps the first."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch

from gramian.compress.compression import Of, Treated, compression
from gramian.compress.slicing.bases import (
    SINK_WEIGHT,
    Discarded,
    discarded,
    narrowing_map,
    shared_basis,
    subtracts_mean,
)
from gramian.compress.slicing.needs import needs, stream_sites
from gramian.compress.slicing.sizes import SlicedSize, size_table, sliced_parameters
from gramian.compress.slicing.widths import checked_draft, kept_width
from gramian.errors import GramianError
from gramian.moments import MomentSet
from gramian.networks import Checkpoint, FoldNorm, Move, Narrow, Plan
from gramian.networks.draft import Draft
from gramian.networks.moves.fold_norm import gain_of
from gramian.networks.sites import parse
from gramian.networks.sizes import sizes
from gramian.registry import method

Head = Literal["untied", "tied"]


@method("slice", job="compress", paper="2401.15024")
def plan(
    checkpoint: Checkpoint,
    moments: MomentSet,
    *,
    keep: float,
    of: Of = "layers",
    multiple: int | None = None,
    head: Head = "untied",
    sink_weight: float = SINK_WEIGHT,
) -> Plan:
    """Keep the leading principal directions of the residual stream, one basis for all places.

    Norm gains are folded into what reads them, the stream is turned into the principal axes of
    its second moments, pooled over all places, and the last ones are cut off from every matrix.
    The result is an ordinary checkpoint with a smaller ``hidden_size``, an explicit ``head_dim``
    and a head of its own. The plan says for this network how large each form of slicing is: a
    small network with a tied head can become larger.

    Parameters
    ----------
    keep : share of the directions to keep, or with ``of="model"`` of the network's parameters.
    multiple : the width is one of this, rounded down; by default 8, or the number of heads where
        the configuration insists on a multiple of that (Llama).
    head : ``tied`` keeps the one table of a tied network, which takes a final norm with one and
        the same gain for all features.
    sink_weight : see :func:`shared_basis`.

    Raises
    ------
    GramianError : other moments, a share outside (0, 1], no width left, a network whose stream
        cannot be narrowed, or a head that cannot stay tied.
    """
    draft = checked_draft(checkpoint)
    needs(checkpoint).require(checkpoint, moments, "slice")
    if not (math.isfinite(sink_weight) and sink_weight >= 0):
        raise GramianError(f"sink_weight is {sink_weight}, expected a number from 0 on")
    blueprint = checkpoint.blueprint
    width = kept_width(draft, keep, of=of, multiple=multiple, tied=head == "tied")
    mean_free, sites = subtracts_mean(checkpoint), stream_sites(checkpoint)
    basis = shared_basis(checkpoint, moments, sites, sink_weight=sink_weight)
    map_ = narrowing_map(basis, width, mean_free=mean_free)
    moves: list[Move] = [
        FoldNorm(norm.name)
        for norm in blueprint.stream_norms()
        if norm.readers and not (head == "tied" and norm is blueprint.main.final_norm)
    ]
    if head == "tied":
        _require_tie(draft)
    lost = [discarded(moments, site, map_.weight, mean_free=mean_free) for site in sites]
    before = sizes(draft, checkpoint.dtype).parameters
    table = size_table(draft, width, before=before)
    return compression(
        checkpoint,
        [*moves, Narrow(map_)],
        method="slice",
        treated=treated(lost, width / blueprint.width, blueprint.depth),
        treated_parameters=before,
        rows=int(moments.moments(sites[0], ("train", "select")).count),
        width=blueprint.width,
        warnings=_warnings(table, head),
        rotation="shared",
        head=head,
        width_before=blueprint.width,
        width_after=width,
        energy_kept=basis.kept(width - mean_free),
        discarded_report=mean_discarded(lost),
        sites=[one.to_json() for one in lost],
        sizes=[one.to_json() for one in table],
    )


def treated(lost: list[Discarded], kept: float, depth: int) -> list[Treated]:
    """The entries of the document: what every layer reads, and the end as the last one's."""
    found = []
    for one in lost:
        site = parse(one.site)
        last = site.layer is None
        layer = depth - 1 if site.layer is None else site.layer
        part = "resid_post" if last else site.kind
        found.append(Treated(layer, kept, one.report, part))
    return found


def mean_discarded(lost: list[Discarded]) -> float:
    """The share of the energy outside on ``report``, every place counting one."""
    return sum(one.report for one in lost) / len(lost)


def _require_tie(draft: Draft) -> None:
    plan = draft.blueprint
    if not plan.tied:
        raise GramianError("the head of this network has a table of its own; leave head='tied' out")
    norm = plan.final_norm
    gain = gain_of(norm, draft.tensor(norm.weight))
    if not bool((gain == gain[0]).all()):
        spread = float(gain.abs().max() / gain.abs().min().clamp_min(torch.finfo(gain.dtype).tiny))
        raise GramianError(
            f"the gain of the final norm differs between features (by a factor of {spread:.1f}), "
            "so a tied head needs a matrix in front of it, for which an ordinary "
            f"{plan.model_type} checkpoint has no place; use head='untied', which costs "
            f"{plan.vocabulary:,} parameters for every direction kept"
        )


def _warnings(table: tuple[SlicedSize, ...], head: str) -> list[str]:
    made: dict[str, Any] = {one.head: one for one in table if one.rotation == "shared"}
    if head != "untied" or made["untied"].share < 1:
        return []
    return [
        f"the sliced network has {made['untied'].share:.1%} of the parameters: a head of its own "
        "costs more than slicing saves; keep fewer directions, or remove layers or neurons instead"
    ]


__all__ = ["mean_discarded", "plan", "sliced_parameters", "treated"]
