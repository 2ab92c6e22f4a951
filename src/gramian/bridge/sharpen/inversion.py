"""Vectors of images as states that a text encoder could have had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.registry import method

Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PromptInverse:
    """Image vectors (n, joint) to hidden states (n, hidden) of the end of a text."""

    map: LinearMap
    """(joint -> hidden), of `gramian.solvers.invert_head` or `gramian.solvers.ridge`."""
    gap: Rows
    """(joint,): mean text less mean image, both of unit length; zero where none was given."""
    length: float | None
    """Length that joint rows are given before the map; None leaves them at one."""
    state_length: float | None
    """Length that hidden states are given in the end; None leaves them as they come."""

    def __call__(self, images: Any) -> Rows:
        """Hidden states (n, hidden), float64.

        Raises
        ------
        GramianError : another width, NaN, or a row of zeros.
        """
        rows = _unit(as_matrix(images, "images", width=self.map.in_features), "image") + self.gap
        if self.gap.any():
            rows = _unit(rows, "image on the side of texts")
        states = self.map(rows * (1.0 if self.length is None else self.length)).numpy()
        if self.state_length is not None:
            states = _unit(states, "hidden state") * self.state_length
        result: Rows = states
        return result


@method("image_to_prompt", job="bridge", paper="2305.12716")
def prompt_inverse(
    map: LinearMap,
    *,
    texts: Any = None,
    images: Any = None,
    length: float | None = None,
    state_length: float | None = None,
) -> PromptInverse:
    """Turn image vectors into states of a text encoder, through its projection head backwards.

    Images are divided by their length, moved over the gap between the two clouds, given the
    length that texts have in the joint space, and taken through the inverse of the text head.

    Parameters
    ----------
    map : joint to hidden rows: ``invert_head(weight).map``, or ``ridge(joint).map`` of unit text
        rows as ``x`` and their hidden states as ``y``.
    texts, images : (n, joint) and (m, joint), not paired, whose means give the gap; both or none.
    length : of text rows behind the head, before they are divided by it; only lengths depend on
        it where the map has no bias. state_length : of hidden states, which hardly differ.

    Raises
    ------
    GramianError : one of texts and images alone, other widths, NaN, a row of zeros, or a length
        that is not positive.
    """
    for name, value in (("length", length), ("state_length", state_length)):
        if value is not None and not 0 < value < float("inf"):
            raise GramianError(f"{name} is {value}, expected a positive number")
    if (texts is None) != (images is None):
        raise GramianError("the gap needs texts and images; give both or neither")
    gap = np.zeros(map.in_features)
    if texts is not None:
        sides = [
            _unit(as_matrix(rows, name, width=map.in_features), name).mean(0)
            for rows, name in ((texts, "text"), (images, "image"))
        ]
        gap = sides[0] - sides[1]
    return PromptInverse(map, gap, length, state_length)


def prompt_states(states: Any, start: Any, length: int) -> Tensor:
    """Conditioning (n, length, hidden): the start token first, the state in every other place.

    states : (n, hidden). start : (hidden,), the state of the start token, which in a causal text
    encoder depends on no prompt. length : tokens of the encoder, 77 in CLIP.

    Raises
    ------
    GramianError : another width, or a length below 2.
    """
    rows = torch.as_tensor(as_matrix(states, "states"))
    first = torch.as_tensor(start)
    if first.shape != rows.shape[1:]:
        raise GramianError(
            f"start of shape {tuple(first.shape)}, expected ({rows.shape[1]},) as the states have"
        )
    if length < 2:
        raise GramianError(f"length is {length}, expected at least 2 tokens")
    out = rows[:, None, :].repeat(1, length, 1)
    out[:, 0] = first.to(out.dtype)
    return out


def _unit(rows: Any, name: str) -> Rows:
    wide = rows.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    if not (lengths > 0).all():
        row = int(np.flatnonzero(lengths[:, 0] == 0)[0])
        raise GramianError(f"{name} {row} is a row of zeros, which points nowhere")
    unit: Rows = wide / lengths
    return unit
