"""Run a network over a batch and keep what passes its sites."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.between import between
from gramian.networks.blueprint import Blueprint, Tap
from gramian.networks.offloaded import input_device
from gramian.networks.sites import BETWEEN, parse


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
    if args:
        return hidden(args[0])
    named = "hidden_states" if "hidden_states" in kwargs else next(iter(kwargs), "")
    return hidden(kwargs.get(named))


@contextmanager
def watching(model: nn.Module, taps: dict[str, Tap], seen: dict[str, Tensor]) -> Iterator[None]:
    """While open, every forward pass leaves the tensors at ``taps`` in ``seen``."""
    handles = []

    def cut(value: Tensor, tap: Tap) -> Tensor:
        if tap.overwritten:
            value = value.clone()
        if tap.scale != 1.0:
            value = value * tap.scale
        if tap.columns is None:
            return value
        parts = value.reshape(*value.shape[:-1], tap.groups, -1)
        return parts[..., tap.columns[0] : tap.columns[1]].flatten(-2)

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
    inputs: Tensor | Mapping[str, Tensor],
    mask: Tensor | None = None,
    *,
    norms: bool = False,
    logits: bool = False,
) -> Captured:
    """One forward pass, returning the activations at ``sites``.

    Parameters
    ----------
    inputs : (batch, length) token ids, for the tower that reads text; or all that the model
        takes, by name (``pixel_values``, ``input_features`` and ``decoder_input_ids``).
    mask : (batch, length), True where the token is real; None when all are.
    norms : also return the norms of the main tower's residual stream before every layer and the
        final norm.
    logits : also run the language-model head and return its output as the site ``logits``.

    Raises
    ------
    GramianError : a site that the network does not have or that these inputs do not reach, ids
        alone for a network that needs more, logits of a network without a head.
    """
    names = [blueprint.canonical(site) for site in sites]
    made = {name: parse(name) for name in names if parse(name).kind in BETWEEN}
    compared = {site.tower: blueprint.residual_sites(site.tower) for site in made.values()}
    residual = blueprint.residual_sites() if norms else ()
    seen_at = [name for name in names if name not in made]
    every = (*seen_at, *residual, *(site for stream in compared.values() for site in stream))
    taps = {name: blueprint.tap(name) for name in every}
    if logits and blueprint.head is None:
        raise GramianError(f"a {blueprint.model_type} network has no head to make logits")
    device = input_device(model)
    if isinstance(inputs, Tensor):
        runner, arguments = _reading_ids(model, blueprint, names, inputs, logits=logits)
    else:
        runner, arguments = _trunk(model, logits=logits), dict(inputs)
    if mask is not None and not bool(mask.all()):
        arguments["attention_mask"] = mask.long()
    arguments = {name: value.to(device) for name, value in arguments.items()}
    batch = next(iter(arguments.values())).shape[0]
    cache = "use_cache" in inspect.signature(runner.forward).parameters
    seen: dict[str, Tensor] = {}
    with torch.no_grad(), watching(model, taps, seen):
        output = runner(**arguments, **({"use_cache": False} if cache else {}))
    unseen = sorted(set(taps) - set(seen))
    if unseen:
        raise GramianError(
            f"the sites {', '.join(unseen[:4])} were not reached by a forward pass with "
            f"{', '.join(arguments)}; give the inputs of that part of the model too"
        )
    rows = {name: seen[name].reshape(batch, -1, taps[name].width) for name in seen_at}
    for tower, stream in compared.items():
        pairs = between([seen[site].reshape(batch, -1, taps[site].width) for site in stream])
        rows |= {name: pairs[s.kind] for name, s in made.items() if s.tower == tower}
    if logits:
        rows["logits"] = output.logits
    stacked = None
    if norms:
        stacked = torch.stack([row_norms(seen[name]).to(device) for name in residual])
    return Captured(rows, stacked)


def _trunk(model: nn.Module, *, logits: bool) -> nn.Module:
    """The whole model, or without its head where no logits are wanted."""
    base = getattr(model, "base_model", model)
    return base if isinstance(base, nn.Module) and not logits else model


def row_norms(stream: Tensor) -> Tensor:
    """Euclidean norms over the last axis, in float32."""
    wide = torch.promote_types(stream.dtype, torch.float32)
    norms: Tensor = torch.linalg.vector_norm(stream, dim=-1, dtype=wide)
    return norms.to(torch.float32)


def _reading_ids(
    model: nn.Module, blueprint: Blueprint, names: list[str], ids: Tensor, *, logits: bool
) -> tuple[nn.Module, dict[str, Tensor]]:
    """The module that token ids alone run through, and its arguments."""
    tower = blueprint.main
    if len(blueprint.towers) == 1:
        return _trunk(model, logits=logits), {"input_ids": ids}
    others = [name for name in names if parse(name).tower != tower.name]
    if tower.alone is None or others or logits:
        what = f"the sites {', '.join(others[:4])}" if others else f"a {blueprint.model_type} model"
        raise GramianError(
            f"token ids alone do not run {what}; give the model's inputs by name, such as "
            "{'pixel_values': ..., 'input_ids': ...}"
        )
    return model.get_submodule(tower.alone), {"input_ids": ids}
