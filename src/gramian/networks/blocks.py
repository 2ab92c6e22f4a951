"""Run one layer of a network at a time, from hidden states that were kept."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint
from gramian.networks.capture import capture, hidden, module_input, watching
from gramian.networks.offloaded import input_device

PROBE = 8
"""Tokens on which running layer by layer is compared with running the whole network."""


@dataclass(frozen=True)
class Blocks:
    """The layers of one network, to be run one by one.

    The network's own forward pass runs every time, so masks, rotary embeddings, sliding windows
    and whatever else differs from layer to layer are its own: all layers but one hand their
    hidden states through, and that one gets the hidden states that were kept.
    """

    model: nn.Module
    blueprint: Blueprint
    device: torch.device
    wrapped: tuple[bool, ...]
    """Whether a layer returns its hidden states inside a tuple."""

    @classmethod
    def of(cls, model: nn.Module, blueprint: Blueprint, ids: Tensor) -> Blocks:
        """The layers, after checking on some tokens that one by one they do what they do together.

        Raises
        ------
        GramianError : a layer does more than turn hidden states into hidden states.
        """
        device = input_device(model)
        ids = ids[:1, :PROBE].to(device)
        wrapped: dict[str, bool] = {}

        def note(path: str) -> Any:
            def hook(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
                wrapped[path] = isinstance(output, tuple)

            return hook

        paths = [layer.path for layer in blueprint.layers]
        with ExitStack() as stack:
            for path in paths:
                handle = model.get_submodule(path).register_forward_hook(note(path))
                stack.callback(handle.remove)
            whole = capture(model, blueprint, blueprint.residual_sites(), ids).rows
        blocks = cls(model, blueprint, device, tuple(wrapped[path] for path in paths))
        every = torch.ones_like(ids, dtype=torch.bool)
        state = blocks.start(ids, every, ())[1]
        for index, site in enumerate(blueprint.residual_sites()):
            # The very same operations: anything above rounding is another function.
            wanted = whole[site].to(state.device)
            scale = wanted.abs().max().clamp_min(1e-30)
            if not bool((state - wanted).abs().max() <= 1e-3 * scale):
                raise GramianError(
                    f"the layers of {type(model).__name__} cannot be run one by one: {site} "
                    "differs from that of the whole network, so its layers share more than hidden "
                    "states; give mode='windows'"
                )
            if index < blueprint.depth:
                state = blocks.run(index, whole[site], every, ())[1]
        return blocks

    def start(self, ids: Tensor, mask: Tensor, sites: Iterable[str]) -> tuple[Rows, Tensor]:
        """What comes before the first layer: rows at ``sites``, and the stream as it enters it."""
        stream = self.blueprint.residual_sites()[0]
        rows = self._forward({"input_ids": ids.to(self.device)}, mask, [stream, *sites], None)
        return rows, rows[stream]

    def run(
        self, layer: int, state: Tensor, mask: Tensor, sites: Iterable[str]
    ) -> tuple[Rows, Tensor]:
        """One layer over kept hidden states (batch, length, width): rows at ``sites`` inside it,
        and the stream behind it."""
        state = state.to(self.device)
        out: list[Tensor] = []

        def replace(
            _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            module_input(args, kwargs)
            if args:
                return (state, *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": state}

        def keep(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            out.append(hidden(output))

        module = self.model.get_submodule(self.blueprint.layers[layer].path)
        with ExitStack() as stack:
            stack.callback(
                module.register_forward_pre_hook(replace, with_kwargs=True, prepend=True).remove
            )
            stack.callback(module.register_forward_hook(keep).remove)
            rows = self._forward(self._entry(state), mask, list(sites), layer)
        return rows, out[0].to(state.device)

    @contextmanager
    def resident(self, layer: int) -> Iterator[None]:
        """While open, the weights of one layer stay where they are computed with, even where
        accelerate would otherwise fetch them for every batch."""
        held: list[tuple[nn.Module, Any]] = []
        try:
            for module in self.model.get_submodule(self.blueprint.layers[layer].path).modules():
                hook = getattr(module, "_hf_hook", None)
                if hook is not None and getattr(hook, "offload", False):
                    hook.pre_forward(module)
                    hook.offload = False
                    held.append((module, hook))
            yield
        finally:
            for module, hook in held:
                hook.offload = True
                hook.post_forward(module, None)

    def _entry(self, state: Tensor) -> dict[str, Tensor]:
        """Arguments that set the shapes of a forward pass; their values reach no layer."""
        takes = inspect.signature(self._trunk.forward).parameters
        if "inputs_embeds" in takes and state.shape[-1] == self._embedded:
            return {"inputs_embeds": state}
        return {"input_ids": torch.zeros(state.shape[:2], dtype=torch.long, device=state.device)}

    @property
    def _embedded(self) -> int:
        return self.blueprint.site_width("embed")

    @property
    def _trunk(self) -> Any:
        return getattr(self.model, "base_model", self.model)

    def _forward(
        self, entry: dict[str, Tensor], mask: Tensor, sites: list[str], layer: int | None
    ) -> Rows:
        shape = next(iter(entry.values())).shape[:2]
        arguments: dict[str, Any] = dict(entry)
        if "use_cache" in inspect.signature(self._trunk.forward).parameters:
            arguments["use_cache"] = False
        if not bool(mask.all()):
            arguments["attention_mask"] = mask.to(self.device).long()
        seen: Rows = {}
        taps = {site: self.blueprint.tap(site) for site in sites}
        with torch.no_grad(), self._only(layer), watching(self.model, taps, seen):
            self._trunk(**arguments)
        return {site: seen[site].reshape(*shape, -1) for site in sites}

    @contextmanager
    def _only(self, layer: int | None) -> Iterator[None]:
        """While open, all other layers hand their hidden states through."""
        before: list[tuple[nn.Module, Any]] = []
        try:
            for other, wrapped in zip(self.blueprint.layers, self.wrapped, strict=True):
                if other.index != layer:
                    module = self.model.get_submodule(other.path)
                    before.append((module, module.__dict__.get("forward")))
                    module.forward = _wrapped if wrapped else _bare
            yield
        finally:
            for module, own in before:
                if own is None:
                    del module.forward
                else:
                    module.forward = own


Rows = dict[str, Tensor]
"""site -> (batch, length, width)."""


def _bare(*args: Any, **kwargs: Any) -> Tensor:
    return module_input(args, kwargs)


def _wrapped(*args: Any, **kwargs: Any) -> tuple[Tensor]:
    return (module_input(args, kwargs),)
