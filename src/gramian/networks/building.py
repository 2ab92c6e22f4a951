"""From configuration and tensors to a folder that opens, or to a network in memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.checkpoint import state
from gramian.networks.draft import Draft
from gramian.networks.quiet import quiet
from gramian.networks.split import filled, hide, split_modules, splits_of


def write_model(draft: Draft, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Save configuration and tensors as safetensors shards.

    The folder is an ordinary transformers checkpoint, except where linears are split.
    """
    model = _assigned(draft, tensors)
    model.config.dtype = next(iter(tensors.values())).dtype
    with quiet():
        model.save_pretrained(folder, max_shard_size="2GB")
    if splits_of(draft.config):
        hide(folder)


def built(draft: Draft, tensors: Mapping[str, Tensor], device: str) -> nn.Module:
    """The network in memory, in evaluation mode."""
    dtype = next(iter(tensors.values())).dtype
    network: nn.Module = filled(type(draft.empty), draft.config, tensors, dtype).to(device)
    return network


def _assigned(draft: Draft, tensors: Mapping[str, Tensor]) -> Any:
    kind: Any = type(draft.empty)
    with torch.device("meta"):
        model = kind(copy.deepcopy(draft.config))
        split_modules(model, splits_of(draft.config))
    expected, found = set(state(model)), set(tensors)
    if expected != found:
        raise GramianError(
            f"the plan leaves the tensors {sorted(found ^ expected)[:4]} unmatched with a "
            f"{draft.config.model_type} checkpoint; this is a defect of the move, please report it"
        )
    model.load_state_dict(dict(tensors), strict=False, assign=True)
    model.tie_weights()
    return model
