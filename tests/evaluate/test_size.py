"""Parameters and bytes, tied tensors once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gramian.evaluate import size

from .models import VOCABULARY, gpt2, llama


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_against_a_count_by_hand(dtype: torch.dtype) -> None:
    attention = 32 * 32 * 2 + 32 * 16 * 2
    expected = 2 * (attention + 3 * 32 * 48 + 2 * 32) + 32 + 2 * VOCABULARY * 32
    found = size(llama().to(dtype))
    assert found.parameters == expected
    assert found.bytes == expected * dtype.itemsize
    assert found.to_json() == {"parameters": expected, "bytes": expected * dtype.itemsize}


def test_tied_embeddings_count_once() -> None:
    assert size(llama()).parameters - size(llama(tied=True)).parameters == VOCABULARY * 32
    assert size(gpt2()).parameters == gpt2().num_parameters()


def test_two_parameters_over_one_memory_count_once() -> None:
    model = nn.Module()
    model.a = nn.Parameter(torch.ones(3, 4))
    model.b = nn.Parameter(model.a.data)
    model.c = nn.Parameter(model.a.data[1:])
    assert size(model).parameters == 12 + 8  # a part of a tensor is a tensor of its own


def test_buffers_are_bytes_and_no_parameters() -> None:
    model = nn.BatchNorm1d(4)
    model.register_buffer("passing", torch.ones(100), persistent=False)
    assert size(model).parameters == 8
    assert size(model).bytes == 4 * 16 + 8


def test_a_model_on_meta_is_counted() -> None:
    with torch.device("meta"):
        found = size(llama(tied=True))
    assert found == size(llama(tied=True))
