"""The network that a plan describes, in memory: to be judged before anything is written."""

from __future__ import annotations

from torch import nn

from gramian.errors import GramianError
from gramian.networks.building import built
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.draft import Draft
from gramian.networks.plan import Plan


def realise(checkpoint: Checkpoint, plan: Plan) -> nn.Module:
    """The network after all moves, in evaluation mode; the checkpoint stays what it is.

    :func:`gramian.apply` makes the same network, writes it and certifies it.

    Raises
    ------
    GramianError : the plan is for other weights.
    """
    if plan.weights != checkpoint.digest:
        raise GramianError(
            f"this plan was made for the weights {plan.weights[:12]} of {plan.model}, but "
            f"{checkpoint.name} has the weights {checkpoint.digest[:12]}; plan again on this model"
        )
    draft = Draft.of(checkpoint)
    for move in plan.moves:
        draft = move.rewrite(draft)
    return built(draft, draft.computed(), checkpoint.device)
