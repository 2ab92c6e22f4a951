"""One forward pass over random tokens, with what went in and out of every module kept."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gramian.errors import GramianError


@dataclass(frozen=True)
class Call:
    """The last call of one module; hidden states are copies, (batch, length, features)."""

    given: Tensor
    returned: Tensor
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    order: int
    """Position among all calls, counted as they return."""


@dataclass(frozen=True)
class Trace:
    """Calls by module path."""

    model: nn.Module
    ids: Tensor
    calls: dict[str, Call]
    logits: Tensor | None

    def children(self, path: str) -> dict[str, Call]:
        """The calls of a module's own children, in order of return."""
        inside = (f"{path}.{name}" for name, _ in self.model.get_submodule(path).named_children())
        found = {name: self.calls[name] for name in inside if name in self.calls}
        return dict(sorted(found.items(), key=lambda item: item[1].order))

    def below(self, path: str) -> dict[str, Call]:
        """The calls of everything inside a module, in order of return; the module itself too."""
        found = {n: c for n, c in self.calls.items() if n == path or n.startswith(f"{path}.")}
        return dict(sorted(found.items(), key=lambda item: item[1].order))


def trace(model: nn.Module, ids: Tensor) -> Trace:
    """Run the model once, in evaluation mode.

    Raises
    ------
    GramianError : it does not run on token ids alone.
    """
    calls: dict[str, Call] = {}
    with _evaluating(model), _listening(model, calls):
        try:
            output: Any = model(input_ids=ids, **_without_cache(model))
        except (TypeError, ValueError, RuntimeError, KeyError, AttributeError) as error:
            raise GramianError(
                f"cannot infer a blueprint of {type(model).__name__}: it does not run on token "
                f"ids alone ({str(error).splitlines()[0]})"
            ) from error
    return Trace(model, ids, calls, getattr(output, "logits", None))


def seeded_ids(model: nn.Module, vocabulary: int, *, batch: int = 2, length: int = 12) -> Tensor:
    """Random tokens, none of them one that the configuration gives a meaning (images, padding)."""
    config: Any = getattr(model, "config", None)
    parts = [config, config.get_text_config()] if hasattr(config, "get_text_config") else []
    values = [item for part in parts for item in part.to_dict().items()]
    special = {v for k, v in values if isinstance(v, int) and "token" in k}
    free = torch.tensor([i for i in range(min(vocabulary, 4096)) if i not in special])
    generator = torch.Generator().manual_seed(0)
    picked = free[torch.randint(len(free), (batch, length), generator=generator)]
    return picked.to(next(model.parameters()).device)


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two activations agree to the rounding of their dtype."""
    if a.shape != b.shape:
        return False
    eps = torch.finfo(b.dtype).eps
    difference = (a.double() - b.double()).norm()
    return bool(difference <= 8 * eps * b.double().norm())


def _without_cache(model: nn.Module) -> dict[str, Any]:
    takes = inspect.signature(model.forward).parameters
    return {"use_cache": False} if "use_cache" in takes else {}


@contextmanager
def _listening(model: nn.Module, calls: dict[str, Call]) -> Iterator[None]:
    handles = []

    given: dict[str, Tensor | None] = {}
    count = itertools.count()

    def before(name: str) -> Any:
        def hook(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
            # Copied here: the network may add to this tensor in place later.
            given[name] = _states(args, kwargs)

        return hook

    def after(name: str) -> Any:
        def hook(_module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            states, returned = given.pop(name, None), _first(output)
            if states is not None and returned is not None:
                calls[name] = Call(states, returned.clone(), args, kwargs, next(count))

        return hook

    try:
        for name, module in model.named_modules():
            if name:
                handles.append(module.register_forward_pre_hook(before(name), with_kwargs=True))
                handles.append(module.register_forward_hook(after(name), with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def _states(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    value = args[0] if args else kwargs.get("hidden_states", next(iter(kwargs.values()), None))
    return value.clone() if isinstance(value, Tensor) else None


def _first(output: Any) -> Tensor | None:
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    return output if isinstance(output, Tensor) else None
