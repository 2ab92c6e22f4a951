"""Fold a map into what makes queries, keys or values."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from gramian.maps import Affine, LinearMap
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.protocol import LAYERS, MATRICES
from gramian.networks.moves.weights import (
    applied,
    checked_map,
    fold_outputs,
    parts,
    require_square,
    with_bias,
)
from gramian.networks.projections import Projection, projection
from gramian.networks.sites import parse


@dataclass(frozen=True)
class FoldProjection:
    """Fold a map at ``<layer>.q``, ``<layer>.k`` or ``<layer>.v`` into the matrix that makes it.

    ``W <- M W``, ``b <- M b + c``; of a matrix that makes all three, in its rows for that site
    alone. Keys and queries are those before the rotary embedding. A constant ``c`` without a bias
    slot is refused, never dropped.
    """

    site: str
    map: LinearMap
    kind: ClassVar[str] = "fold_projection"
    changes: ClassVar[frozenset[str]] = frozenset({MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS})

    def __post_init__(self) -> None:
        checked_map(self.map, "FoldProjection")

    def rewrite(self, draft: Draft) -> Draft:
        found = projection(draft.blueprint, self.site)
        require_square(self.map, found.tap.width, self.site)
        if found.tap.columns is None:
            return fold_outputs(draft, found.matrix, self.map, self.site)
        return _fold_some(draft, found, self.map)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        site = parse(draft.blueprint.canonical(self.site))
        assert site.layer is not None
        found = projection(source, f"{draft.origin[site.layer]}.{site.kind}")

        def after(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            rows = found.outputs(output.shape[-1])
            if rows is None:
                return applied(self.map, output)
            return output.index_copy(-1, rows, applied(self.map, output[..., rows]))

        handle = model.get_submodule(found.tap.path).register_forward_hook(after)
        stack.callback(handle.remove)

    def describe(self) -> str:
        return f"fold {self.map!r} into the projection to {self.site}"


def _fold_some(draft: Draft, found: Projection, map: LinearMap) -> Draft:
    """Of a matrix that makes several sites, change the outputs of one."""
    linear, constant = parts(map)
    if constant is not None:
        draft = with_bias(draft, found.matrix, found.site)
    out = draft.giving(found.matrix)
    changed: dict[str, Lazy] = {
        out.weight: _some(draft.tensors[out.weight], found, linear, turned=not out.inputs_first)
    }
    if out.bias in draft.tensors:
        whole = linear if constant is None else Affine(linear, constant)
        changed[out.bias] = _some(draft.tensors[out.bias], found, whole, turned=False)
    return draft.with_tensors(changed)


def _some(old: Lazy, found: Projection, map: LinearMap, *, turned: bool) -> Lazy:
    """The map on the last axis (the first if ``turned``) of a tensor, in one site's entries."""

    def made() -> Tensor:
        tensor = old()
        last = tensor.T if turned else tensor
        rows = found.outputs(last.shape[-1])
        assert rows is not None
        rows = rows.to(tensor.device)
        new = last.index_copy(-1, rows, applied(map, last[..., rows]))
        return (new.T if turned else new).contiguous()

    return made
