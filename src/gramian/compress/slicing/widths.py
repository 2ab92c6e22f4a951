"""From a share to keep to a width that the architecture takes."""

from __future__ import annotations

import math

from gramian.compress.compression import Of
from gramian.compress.slicing.sizes import sliced_parameters
from gramian.errors import GramianError
from gramian.networks import Checkpoint
from gramian.networks.draft import Draft
from gramian.networks.moves.narrow import require_plain_norms
from gramian.networks.narrowing import narrowed, width_step
from gramian.networks.structures import structures_of

USUAL = 8
"""Widths are multiples of this where nothing else is asked for."""


def checked_draft(checkpoint: Checkpoint) -> Draft:
    """The network on paper, where its stream can be narrowed at all.

    Raises
    ------
    GramianError : it has linears in two factors, norms that are not between the stream and
        matrices, or an architecture that ties attention to the width of the stream.
    """
    draft = Draft.of(checkpoint)
    if structures_of(draft.config):
        raise GramianError(
            f"{checkpoint.name} has linears in two factors; slice the network first, then split it"
        )
    checkpoint.require_logits("slicing")
    require_plain_norms(draft.blueprint)
    # A width that leaves heads their size, so that what is refused is the architecture.
    less = draft.blueprint.width - int(getattr(draft.config, "num_attention_heads", None) or 1)
    if less > 0:
        narrowed(draft, less)
    return draft


def kept_width(
    draft: Draft, keep: float, *, of: Of, multiple: int | None, tied: bool = False
) -> int:
    """The largest allowed width of at most the share, and the whole one for a share of 1.

    Raises
    ------
    GramianError : a share outside (0, 1], a multiple below 1, or nothing left.
    """
    d = draft.blueprint.width
    if not (math.isfinite(keep) and 0 < keep <= 1):
        raise GramianError(f"keep is {keep}, expected a share above 0 and at most 1, such as 0.8")
    if of not in ("layers", "model"):
        raise GramianError(f"of is {of!r}, expected 'layers' or 'model'")
    if multiple is not None and not 1 <= multiple <= d:
        raise GramianError(f"multiple is {multiple}, expected 1 to {d}, the width of the stream")
    asked = width_step(draft)
    step = math.lcm(multiple, asked) if multiple else (asked if asked > 1 else USUAL)
    most = keep * d if of == "layers" else _width_of_model(draft, keep, tied=tied)
    # A share of 1 is no slicing, whatever the multiple.
    if most >= d:
        return d
    width = math.floor(most / step + 1e-9) * step
    if width < 1:
        insists = f" (this architecture insists on multiples of {asked})" if asked > 1 else ""
        raise GramianError(
            f"keeping {keep:.1%} leaves {most:.1f} of {d} directions, and the width has to be a "
            f"multiple of {step}{insists}; keep more, or give a smaller multiple"
        )
    return width


def _width_of_model(draft: Draft, keep: float, *, tied: bool) -> float:
    """The width at which the network has this share of its parameters; they are linear in it."""
    plan = draft.blueprint
    d = plan.width
    table = plan.vocabulary if tied else 0
    many, fewer = (sliced_parameters(draft, w) - table * w for w in (d, d - 1))
    now = sliced_parameters(draft, d) - (plan.vocabulary * d if plan.tied else 0)
    slope = many - fewer
    found = (keep * now - (many - slope * d)) / slope
    if found < 1:
        least = (many - slope * (d - 1)) / now
        raise GramianError(
            f"keeping {keep:.1%} of the model would take more than slicing can; keep more than "
            f"{least:.1%}"
        )
    return min(found, float(d))
