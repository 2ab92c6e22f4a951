"""Maps applied by forward hooks: what a folded map is held against."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from torch import nn

from gramian.maps import LinearMap
from gramian.networks.blueprint import Matrix
from gramian.networks.capture import hidden
from gramian.networks.moves.weights import applied


def map_outputs(module: nn.Module, map: LinearMap, stack: ExitStack) -> None:
    """Until the stack closes, ``module`` gives its output (the first of a tuple) mapped."""

    def after(_module: nn.Module, _args: Any, output: Any) -> Any:
        mapped = applied(map, hidden(output))
        return (mapped, *output[1:]) if isinstance(output, tuple) else mapped

    stack.callback(module.register_forward_hook(after).remove)


def map_inputs(module: nn.Module, map: LinearMap, stack: ExitStack) -> None:
    """Until the stack closes, ``module`` is given its input mapped, before maps set earlier."""

    def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (applied(map, args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": applied(map, kwargs["hidden_states"])}

    handle = module.register_forward_pre_hook(before, with_kwargs=True, prepend=True)
    stack.callback(handle.remove)


def owners(model: nn.Module, matrices: Iterable[Matrix]) -> tuple[nn.Module, ...]:
    """The modules that weights belong to, each once: linears, or experts that share a tensor."""
    paths = dict.fromkeys(matrix.weight.rpartition(".")[0] for matrix in matrices)
    return tuple(model.get_submodule(path) for path in paths)
