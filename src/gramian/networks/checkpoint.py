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
from gramian.networks.families import FAMILIES, blueprint
from gramian.networks.sources import Source, resolve


@dataclass(frozen=True)
class Checkpoint:
    """A causal language model and where it came from. Weights are read on first use."""

    source: Source
    config: Any
    device: str
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """What the person called it."""
        return self.source.name

    @cached_property
    def model(self) -> nn.Module:
        """The transformers model, in evaluation mode, on ``device`` in ``dtype``."""
        model = self.source.load_model(self.config, self.dtype, self.device)
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
        """The parts of the architecture; raises GramianError for one that has no table."""
        model_type = getattr(self.config, "model_type", None)
        if model_type not in FAMILIES:
            raise GramianError(
                f"{self.name} is a {model_type!r} model, for which there is no blueprint; known "
                f"model types: {', '.join(sorted(FAMILIES))}"
            )
        return blueprint(self.config, self.skeleton)

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of every tensor's name, dtype, shape and bytes."""
        return {name: fingerprint(tensor) for name, tensor in state(self.model).items()}

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
    model: str | Path, *, device: str = "cpu", dtype: str | torch.dtype = "float32"
) -> Checkpoint:
    """Open a causal language model.

    Parameters
    ----------
    model : a local folder, a ``.gguf`` file, ``bundled:smollm2``, or a Hugging Face id.
    device : where the weights go when they are read.
    dtype : ``float32``, ``bfloat16``, ``float16`` or ``float64``.

    Raises
    ------
    GramianError : nothing there, an unknown device or dtype.
    """
    source = resolve(str(model))
    return Checkpoint(source, source.load_config(), _device(device), _dtype(dtype))


def skeleton(config: Any) -> nn.Module:
    """A causal language model of this configuration on the meta device."""
    from transformers import AutoModelForCausalLM

    factory: Any = AutoModelForCausalLM
    with torch.device("meta"):
        model: nn.Module = factory.from_config(config)
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
