"""From a state at the final norm to tokens: the network's own read-out, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.networks.checkpoint import Checkpoint


@dataclass(frozen=True)
class Reading:
    """What a read-out says about each row, against the full network."""

    rank: Tensor
    """How many tokens this read-out puts above the full network's first choice; 0 = agreement."""
    kl: Tensor
    """KL(full network || read-out), nats."""
    surprisal: Tensor
    """-log p of the full network's first choice, nats."""
    confidence: Tensor
    """Largest probability of this read-out."""


def logits(checkpoint: Checkpoint, states: Tensor) -> Tensor:
    """``W_U norm(x)``: the network's final norm and head applied to (n, d) residual states.

    Gemma 2 bends its logits afterwards, and so does this: ``c tanh(z / c)``.
    """
    model: Any = checkpoint.model
    norm = model.get_submodule(checkpoint.blueprint.final_norm.path)
    head = model.get_output_embeddings()
    with torch.no_grad():
        result: Tensor = head(norm(states.to(next(head.parameters()).dtype)))
    cap = getattr(checkpoint.config.get_text_config(), "final_logit_softcapping", None)
    return result if cap is None else cap * torch.tanh(result / cap)


@dataclass(frozen=True)
class Reference:
    """The full network's predictions for some rows, in the form that readings are taken from."""

    first: Tensor
    """(n,) the network's first choice."""
    probabilities: Tensor
    """(n, vocabulary)"""
    entropy: Tensor
    """(n,) nats."""

    @classmethod
    def of(cls, full: Tensor) -> Reference:
        """From the full network's (n, vocabulary) logits."""
        log_p = full.float().log_softmax(-1)
        p = log_p.exp()
        return cls(full.argmax(-1), p, -(p * log_p).sum(-1))

    def reading(self, guess: Tensor) -> Reading:
        """Compare (n, vocabulary) logits of a read-out with the full network; they are used up."""
        guess = guess.float()
        at_first = guess.gather(-1, self.first[:, None])
        rank = torch.count_nonzero(guess > at_first, dim=-1)
        dot = torch.einsum("nv,nv->n", self.probabilities, guess)
        top = guess.amax(-1, keepdim=True)
        mass = guess.sub_(top).exp_().sum(-1)
        log_z = top[:, 0] + mass.log()
        return Reading(
            rank=rank,
            # KL(p || q) = -H(p) - sum_v p_v (z_v - log Z)
            kl=(log_z - dot - self.entropy).clamp_min(0),
            surprisal=log_z - at_first[:, 0],
            confidence=1 / mass,
        )
