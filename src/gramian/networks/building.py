"""From configuration and tensors to a folder that opens, or to a network in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.checkpoint import state
from gramian.networks.draft import Draft
from gramian.networks.opening import opener
from gramian.networks.quiet import quiet
from gramian.networks.structures import structured, structures_of, write_own_code
from gramian.networks.structures.building import filled, structured_class


def write_model(draft: Draft, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Save configuration and tensors as safetensors shards.

    The folder is an ordinary transformers checkpoint; with structured modules, one that carries
    its own modelling code.
    """
    model = _assigned(draft, tensors)
    model.config.dtype = next(iter(tensors.values())).dtype
    own = bool(structures_of(draft.config))
    with quiet():
        # Names of tensors are those of the modules: own code has no conversion of its own.
        model.save_pretrained(folder, max_shard_size="2GB", save_original_format=not own)
    if own:
        write_own_code(folder, model, opener(draft.config).__name__)


def built(draft: Draft, tensors: Mapping[str, Tensor], device: str) -> nn.Module:
    """The network in memory, in evaluation mode."""
    dtype = next(iter(tensors.values())).dtype
    kind: Any = type(draft.empty)
    if structures_of(draft.config):
        kind = structured_class(kind)
    with quiet():
        network: nn.Module = filled(
            kind, None, config=draft.config, state_dict=dict(tensors), dtype=dtype
        )
    return network.to(device)


def _assigned(draft: Draft, tensors: Mapping[str, Tensor]) -> Any:
    model = structured(type(draft.empty), draft.config)
    expected, found = set(state(model)), set(tensors)
    if expected != found:
        raise GramianError(
            f"the plan leaves the tensors {sorted(found ^ expected)[:4]} unmatched with a "
            f"{draft.config.model_type} checkpoint; this is a defect of the move, please report it"
        )
    model.load_state_dict(dict(tensors), strict=False, assign=True)
    model.tie_weights()
    return model
