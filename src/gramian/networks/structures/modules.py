"""The modules that stand where a structure says so, and how they are put there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from gramian.networks.structures.latents import CACHED, cache_latents


class Factors(nn.Module):
    """Two linears in place of one, in -> rank -> out: ``up(down(x))``, the bias on ``up``."""

    def __init__(self, wide: int, high: int, *, rank: int, bias: bool, **where: Any) -> None:
        super().__init__()
        if rank > min(wide, high):
            raise ValueError(
                f"factors of rank {rank} for a matrix of {high} x {wide}, expected at most "
                f"{min(wide, high)}"
            )
        self.down = nn.Linear(wide, rank, bias=False, **where)
        self.up = nn.Linear(rank, high, bias=bias, **where)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.up(self.down(x))
        return result


MODULES: dict[str, Any] = {"factors": Factors, **CACHED}
"""Kind of structure -> its module."""


def restructure(model: nn.Module, table: Mapping[str, Mapping[str, Any]]) -> None:
    """Put modules of their structure in the place of linears; their weights are not set.

    Raises
    ------
    ValueError : a path that names no linear of this network, or sizes that do not fit it.
    """
    found = {path: _linear(model, path) for path in table}
    for path, structure in table.items():
        sizes = {name: value for name, value in structure.items() if name != "kind"}
        linear = found[path]
        weight: Any = linear.weight
        wide, high = weight.shape if isinstance(linear, Conv1D) else weight.shape[::-1]
        where = {"device": weight.device, "dtype": weight.dtype}
        bias = linear.bias is not None
        try:
            module = MODULES[structure["kind"]](wide, high, bias=bias, **sizes, **where)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        model.set_submodule(path, module)
    cache_latents(model, table)
    by_owner: dict[str, list[str]] = {}
    for path in table:
        owner, _, name = path.rpartition(".")
        by_owner.setdefault(owner, []).append(name)
    for path, names in by_owner.items():
        if path:
            parent = model.get_submodule(path)
            kind: Any = type(parent)
            parent.__class__ = _variant(kind, tuple(sorted(names)))


def _linear(model: nn.Module, path: str) -> nn.Module:
    try:
        module = model.get_submodule(path)
    except AttributeError:
        raise ValueError(f"this {type(model).__name__} has no module {path!r}") from None
    if not isinstance(module, (nn.Linear, Conv1D)):
        raise ValueError(f"{path} is a {type(module).__name__}, expected a linear")
    return module


@cache
def _variant(kind: Any, names: tuple[str, ...]) -> Any:
    """The class of modules of this kind in which these linears are structured.

    Programs that look at one module of a class and then rewrite all of them (vLLM fuses q, k and v
    so) must not take a module with structured linears for one without. It has the name of
    its kind, because transformers knows some classes by name.
    """

    def reduce(self: nn.Module) -> Any:
        return _blank, (kind, names), self.__dict__

    body = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__reduce__": reduce}
    return type(kind.__name__, (kind,), body)


def _blank(kind: Any, names: tuple[str, ...]) -> Any:
    made: Any = _variant(kind, names)
    return made.__new__(made)
