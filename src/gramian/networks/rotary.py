"""The rotary position embedding of a network's queries and keys, as tables."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.parts import Layer
from gramian.networks.structures.latents import Rotary
from gramian.networks.structures.latents import rotary_of as found_rotary

_AT_ONCE = 128
"""Positions whose rotations are written out as matrices at a time."""


def rotary_of(model: nn.Module, layer: Layer) -> Rotary | None:
    """What a layer rotates its queries and keys with; None where it does not.

    Raises
    ------
    GramianError : several embeddings, or code that rotates in another way.
    """
    attention = model.get_submodule(attention_path(layer))
    try:
        return found_rotary(model, attention, layer.index)
    except ValueError as error:
        raise GramianError(str(error)) from None


def attention_path(layer: Layer) -> str:
    """The module that holds a layer's projections and attends."""
    return layer.taps["z"].path.rpartition(".")[0]


def rotary_tables(rotary: Rotary, width: int, positions: int) -> tuple[Tensor, Tensor, Tensor]:
    """``cos``, ``sin`` (positions, width) and ``J`` (width, width), float64, such that position p
    takes y to ``cos_p * y + sin_p * (J y)``."""
    device = next(iter(rotary.embedding.buffers())).device
    eye, every = torch.eye(width, dtype=torch.float32, device=device), torch.arange(width)
    cos: list[Tensor] = []
    sin: list[Tensor] = []
    partner, turned = every, torch.zeros(width, dtype=torch.float64)
    for where in torch.arange(positions, device=device).split(_AT_ONCE):
        rows = eye[None, :, None, :].expand(1, width, len(where), width)
        # rotary(rows)[0, i, p] = R_p e_i
        rotations = rotary(rows, where[None])[0].double().cpu().permute(1, 2, 0)
        if not cos:
            beside = rotations.abs().sum(0).fill_diagonal_(0.0)
            partner, turned = beside.argmax(1), (beside.amax(1) > 0).double()
        cos.append(rotations.diagonal(dim1=1, dim2=2))
        sin.append(rotations[:, every, partner] * turned)
    turn = torch.zeros(width, width, dtype=torch.float64)
    turn[every, partner] = turned
    return torch.cat(cos), torch.cat(sin), turn
