"""What every layer would say at every position of one prompt."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gramian.errors import GramianError
from gramian.lens.casts import Casts
from gramian.lens.decode import logits
from gramian.networks.capture import capture
from gramian.networks.checkpoint import Checkpoint


@dataclass(frozen=True)
class Guess:
    """The tokens that one layer puts first at one position, best first."""

    site: str
    position: int
    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class PromptReading:
    """The prompt's tokens, and guesses through the casts and through the identity.

    The full network's own guesses come last, under the site ``final``.
    """

    tokens: tuple[str, ...]
    cast: tuple[Guess, ...]
    identity: tuple[Guess, ...]


def read_prompt(
    checkpoint: Checkpoint, casts: Casts, prompt: str, *, top: int = 5
) -> PromptReading:
    """Decode every layer at every position of ``prompt``.

    Raises
    ------
    GramianError : an empty prompt, or ``top`` below 1 or above the vocabulary.
    """
    checkpoint.require_logits("the lens")
    tokenizer = checkpoint.tokenizer
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    if ids.numel() == 0:
        raise GramianError("the prompt has no tokens; give some text")
    if not 1 <= top <= checkpoint.blueprint.vocabulary:
        raise GramianError(
            f"top={top}: expected 1 to {checkpoint.blueprint.vocabulary}, the vocabulary's size"
        )
    sites = [cast.site for cast in casts]
    captured = capture(checkpoint.model, checkpoint.blueprint, [*sites, "final"], ids)

    def guesses(site: str, state: torch.Tensor) -> list[Guess]:
        best = logits(checkpoint, state).float().softmax(-1).topk(top)
        return [
            Guess(
                site,
                position,
                tuple(tokenizer.decode([int(i)]) for i in best.indices[position]),
                tuple(float(p) for p in best.values[position]),
            )
            for position in range(len(state))
        ]

    cast_rows: list[Guess] = []
    identity_rows: list[Guess] = []
    for cast in casts:
        state = captured.rows[cast.site][0]
        map_ = cast.map.to(dtype=torch.float32, device=checkpoint.device)
        cast_rows += guesses(cast.site, map_(state))
        identity_rows += guesses(cast.site, state)
    full = guesses("final", captured.rows["final"][0])
    tokens = tuple(tokenizer.decode([int(i)]) for i in ids[0])
    return PromptReading(tokens, (*cast_rows, *full), (*identity_rows, *full))
