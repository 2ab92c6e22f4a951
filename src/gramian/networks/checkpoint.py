"""A network that can be opened: configuration, blueprint, tokenizer and, when asked, weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint
from gramian.networks.families import blueprint, family
from gramian.networks.infer import infer
from gramian.networks.offloaded import check_device_map, present
from gramian.networks.opening import opener
from gramian.networks.sources import Source, resolve


@dataclass(frozen=True)
class Checkpoint:
    """A network and where it came from. Weights are read on first use."""

    source: Source
    config: Any
    device: str
    dtype: torch.dtype
    device_map: Any = None

    @property
    def name(self) -> str:
        """What the person called it."""
        return self.source.name

    @cached_property
    def model(self) -> nn.Module:
        """The transformers model, in evaluation mode, on ``device`` in ``dtype``."""
        model = self.source.load_model(self.config, self.dtype, self.device, self.device_map)
        model.eval()
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        return model

    @cached_property
    def tokenizer(self) -> Any:
        """The transformers tokenizer."""
        return self.source.load_tokenizer()

    @cached_property
    def skeleton(self) -> nn.Module:
        """The same model without weights (meta device): shapes and names only."""
        return skeleton(self.config)

    @cached_property
    def blueprint(self) -> Blueprint:
        """The parts of the architecture: from a table, or else inferred from the weights.

        Raises
        ------
        GramianError : no table, and nothing was found that a forward pass verifies.
        """
        if family(self.config) is not None:
            return blueprint(self.config, self.skeleton)
        return infer(self.model)

    @property
    def positions(self) -> int | None:
        """The longest text that the model has positions for; None where nothing limits it."""
        text: Any = self.config.get_text_config()
        names = ("max_position_embeddings", "max_target_positions")
        found = next((n for name in names if (n := getattr(text, name, None))), None)
        if found is None:
            return None
        table = family(self.config)
        taken = text.pad_token_id + 1 if table is not None and table.padded_positions else 0
        return int(found) - int(taken)

    def require_logits(self, job: str) -> None:
        """Refuse a network that does not predict the next token from its last residual state.

        Raises
        ------
        GramianError : it has no language-model head, no final norm, or is not causal.
        """
        plan = self.blueprint
        if plan.head is not None and plan.main.final_norm is not None and plan.causal:
            return
        raise GramianError(
            f"{job} reads predictions of the next token, which {self.name} (a "
            f"{plan.model_type} model) does not make; expected a causal language model with a "
            "head and a final norm"
        )

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of every tensor's name, dtype, shape and bytes."""
        return {
            name: fingerprint(present(self.model, name, tensor))
            for name, tensor in state(self.model).items()
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all fingerprints: equal exactly when the weights are."""
        text = json.dumps(self.fingerprints, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def tokenizer_digest(self) -> str:
        """SHA-256 of the vocabulary and special tokens."""
        tokenizer = self.tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        text = (
            backend.to_str()
            if backend is not None
            else json.dumps(sorted(tokenizer.get_vocab().items()))
        )
        text += json.dumps([tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token])
        return hashlib.sha256(text.encode()).hexdigest()


def open(
    model: str | Path,
    *,
    device: str = "cpu",
    dtype: str | torch.dtype = "float32",
    device_map: Any = None,
) -> Checkpoint:
    """Open a model: a language model with its head, an encoder without one.

    Parameters
    ----------
    model : a local folder, a ``.gguf`` file, ``bundled:smollm2``, ``bundled:minilm``, or a
        Hugging Face id.
    device : where the weights go when they are read.
    dtype : ``float32``, ``bfloat16``, ``float16`` or ``float64``.
    device_map : that of transformers (``"auto"``, or module path to device, ``"cpu"`` or
        ``"disk"``), for a model larger than one device; needs accelerate.

    Raises
    ------
    GramianError : nothing there, an unknown device or dtype, no accelerate for ``device_map``.
    """
    source = resolve(str(model))
    if device_map is not None:
        check_device_map()
    return Checkpoint(source, source.load_config(), _device(device), _dtype(dtype), device_map)


def skeleton(config: Any) -> nn.Module:
    """A model of this configuration on the meta device."""
    with torch.device("meta"):
        model: nn.Module = opener(config).from_config(config)
    return model


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and saved buffers by name, a tied tensor once, under its first name."""
    tied = getattr(model, "_tied_weights_keys", None) or {}
    aliases = set(tied) if getattr(model.config, "tie_word_embeddings", False) else set()
    return {name: t for name, t in model.state_dict().items() if name not in aliases}


def fingerprint(tensor: torch.Tensor) -> str:
    """SHA-256 of a tensor's dtype, shape and bytes."""
    data = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{data.dtype}{tuple(data.shape)}".encode())
    digest.update(data.view(torch.uint8).reshape(-1).numpy().data)
    return digest.hexdigest()


def _device(device: str) -> str:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise GramianError(
            f"device {device!r} cannot be used here ({str(error).splitlines()[0]}); "
            "expected cpu, or a device that this build of torch sees"
        ) from error
    return device


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    known = {str(t).removeprefix("torch."): t for t in _FLOATS}
    if isinstance(dtype, torch.dtype) and dtype in _FLOATS:
        return dtype
    if str(dtype) not in known:
        raise GramianError(f"dtype {dtype!r} is not one of {', '.join(known)}")
    return known[str(dtype)]


_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
