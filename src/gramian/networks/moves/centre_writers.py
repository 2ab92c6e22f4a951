"""Subtract from all that is added to the residual stream what LayerNorm would subtract."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from gramian.errors import GramianError
from gramian.maps import IdentityPlus, LowRank
from gramian.maps.tags import Tag
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.protocol import MATRICES, STREAM
from gramian.networks.moves.stream import map_embeddings, map_writers, require_closed


@dataclass(frozen=True)
class CentreWriters:
    """Subtract the mean over features from embeddings, writers and their biases.

    For networks whose norms all subtract the mean: ``LN(x) = LN(x - mean(x))``, so the function
    does not change, and every residual activation has mean zero afterwards. A tied head is untied
    first. Refused for RMSNorm, where it would change the function.
    """

    kind: ClassVar[str] = "centre_writers"
    changes: ClassVar[frozenset[str]] = frozenset({STREAM, MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset()

    def rewrite(self, draft: Draft) -> Draft:
        plan = draft.blueprint
        require_closed(draft, "CentreWriters")
        norms, readers = plan.stream_norms(), plan.stream_readers()
        blocking = [n.name for n in norms if n.kind != "layer" or n.place != "before"]
        blocking += [r.site for r in readers if r.norm is None]
        if blocking or plan.main.final_norm is None:
            raise GramianError(
                "CentreWriters is for networks in which a LayerNorm stands before all that reads "
                f"the residual stream; in this {plan.model_type} network that is not so at "
                f"{', '.join(map(repr, blocking[:3])) or 'the output'}"
            )
        width = plan.width
        ones = torch.ones(width, 1, dtype=torch.float64)
        # x - mean(x) = (I - 1 1ᵀ / d) x
        centring = IdentityPlus(LowRank(-ones / width, ones.T)).with_tags(
            Tag.PROJECTION, Tag.SYMMETRIC
        )
        draft = map_embeddings(draft.untied(), centring)
        return map_writers(draft, centring, "CentreWriters")

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        """Nothing: the network's function stays what it was."""

    def describe(self) -> str:
        return "centre all that writes into the residual stream"
