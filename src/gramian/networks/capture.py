"""Run a network over a batch and keep what passes its sites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint, Tap


@dataclass(frozen=True)
class Captured:
    """Activations of one batch."""

    rows: dict[str, Tensor]
    """site -> (batch, length, width), in the model's dtype; views, never copies."""
    norms: Tensor | None
    """(residual sites, batch, length) Euclidean norms of the residual stream, where asked."""


def hidden(value: Any) -> Tensor:
    """The hidden states among what a module takes or returns (the first of a tuple)."""
    while isinstance(value, (tuple, list)):
        value = value[0]
    if not isinstance(value, Tensor):
        raise GramianError(f"expected a tensor of hidden states, found {type(value).__name__}")
    return value


def module_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """The hidden states that a module is called with, positional or by keyword."""
    return hidden(args[0] if args else kwargs["hidden_states"])


@contextmanager
def watching(model: nn.Module, taps: dict[str, Tap], seen: dict[str, Tensor]) -> Iterator[None]:
    """While open, every forward pass leaves the tensors at ``taps`` in ``seen``."""
    handles = []

    def cut(value: Tensor, tap: Tap) -> Tensor:
        if tap.overwritten:
            value = value.clone()
        if tap.columns is None:
            return value
        parts = value.unflatten(-1, (tap.groups, -1))[..., tap.columns[0] : tap.columns[1]]
        return parts.flatten(-2)

    def before(name: str, tap: Tap) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen[name] = cut(module_input(args, kwargs), tap)

        return hook

    def after(name: str, tap: Tap) -> Any:
        def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            seen[name] = cut(hidden(output), tap)

        return hook

    try:
        for name, tap in taps.items():
            module = model.get_submodule(tap.path)
            if tap.side == "input":
                handles.append(
                    module.register_forward_pre_hook(before(name, tap), with_kwargs=True)
                )
            else:
                handles.append(module.register_forward_hook(after(name, tap)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def capture(
    model: nn.Module,
    blueprint: Blueprint,
    sites: Iterable[str],
    ids: Tensor,
    mask: Tensor | None = None,
    *,
    norms: bool = False,
    logits: bool = False,
) -> Captured:
    """One forward pass, returning the activations at ``sites``.

    Parameters
    ----------
    ids : (batch, length) token ids.
    mask : (batch, length), True where the token is real; None when all are.
    norms : also return the norms of the residual stream before every layer and the final norm.
    logits : also run the language-model head and return its output as the site ``logits``.

    Raises
    ------
    GramianError : a site that the network does not have.
    """
    names = [blueprint.canonical(site) for site in sites]
    wanted = {name: blueprint.tap(name) for name in names}
    residual = blueprint.residual_sites() if norms else ()
    taps = {**wanted, **{name: blueprint.tap(name) for name in residual}}
    seen: dict[str, Tensor] = {}
    device = next(model.parameters()).device
    ids = ids.to(device)
    padded = mask is not None and not bool(mask.all())
    arguments: dict[str, Any] = {"input_ids": ids, "use_cache": False}
    if padded and mask is not None:
        arguments["attention_mask"] = mask.to(device).long()
    trunk = model if logits else getattr(model, "base_model", model)
    with torch.no_grad(), watching(model, taps, seen):
        output = trunk(**arguments)
    rows = {name: seen[name].reshape(*ids.shape, -1) for name in wanted}
    if logits:
        rows["logits"] = output.logits
    stacked = None
    if norms:
        stacked = torch.stack(
            [torch.linalg.vector_norm(seen[name], dim=-1, dtype=torch.float32) for name in residual]
        )
    return Captured(rows, stacked)
