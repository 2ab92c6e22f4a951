"""The moves a plan is made of: each rewrites a draft, and knows what it means on the source."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps import Affine, LinearMap
from gramian.networks.blueprint import Blueprint, Matrix
from gramian.networks.capture import module_input
from gramian.networks.checkpoint import skeleton
from gramian.networks.draft import Draft, Lazy
from gramian.networks.families import blueprint
from gramian.networks.sites import parse


class Move(Protocol):
    """One step of a plan. Layers are numbered as the previous moves left them."""

    kind: ClassVar[str]

    def rewrite(self, draft: Draft) -> Draft:
        """The draft after this move; raises GramianError where the network cannot take it."""
        ...

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        """Make ``model`` (the unchanged source) compute what this move should: the reference
        that the written checkpoint is certified against. ``draft`` is the one before the move."""
        ...

    def describe(self) -> str:
        """One line for a table."""
        ...


@dataclass(frozen=True)
class FoldNorm:
    """Move a norm's gain (and bias) into the matrices that read it; its gain becomes one.

    The function of the network does not change. RMSNorm: ``W diag(g)``; Gemma: ``1 + weight``;
    LayerNorm: also ``b + W beta`` (the mean is still subtracted; readers without a bias leave
    ``beta / g`` in the norm). A tied head is untied first.
    """

    norm: str
    kind: ClassVar[str] = "fold_norm"

    def rewrite(self, draft: Draft) -> Draft:
        plan = draft.blueprint
        norm = plan.norm(self.norm)
        if not norm.readers:
            raise GramianError(
                f"norm {self.norm!r}: its output is added to the residual stream, no matrix reads "
                "it, so its gain cannot be folded"
            )
        shift = norm.bias
        config: dict[str, Any] = {}
        tensors = dict(draft.tensors)
        gain_of = tensors[norm.weight]
        if plan.tied and norm.readers == (plan.head,):
            tensors[plan.head.weight] = tensors[f"{plan.embed}.weight"]
            config["tie_word_embeddings"] = False

        def gain() -> Tensor:
            g = gain_of().double()
            return 1 + g if norm.kind == "rms1p" else g

        changed: dict[str, Lazy] = {}
        absorbed = all(reader.has_bias for reader in norm.readers)
        for reader in norm.readers:
            if shift is not None and absorbed:
                changed[reader.bias] = _shifted(
                    reader, tensors[reader.bias], tensors[reader.weight], tensors[shift]
                )
            changed[reader.weight] = _scaled(reader, tensors[reader.weight], gain)
        neutral = torch.zeros_like if norm.kind == "rms1p" else torch.ones_like
        changed[norm.weight] = lambda: neutral(gain_of())
        if shift is not None:
            changed[shift] = _remaining_shift(tensors[shift], gain, absorbed, self.norm)
        return draft.with_tensors({**tensors, **changed}, **config)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        """Nothing: the network's function stays what it was."""

    def describe(self) -> str:
        return f"fold norm {self.norm}"


@dataclass(frozen=True)
class FoldMap:
    """Fold a map at ``<layer>.attn_out`` or ``<layer>.mlp_out`` into the matrix that writes it.

    ``W <- M W``, ``b <- M b + c``. A constant ``c`` without a bias slot is refused, never
    dropped: fold ``map.map`` (the linear part) if that is what you want.
    """

    site: str
    map: LinearMap
    kind: ClassVar[str] = "fold_map"

    def rewrite(self, draft: Draft) -> Draft:
        plan = draft.blueprint
        matrix = plan.writer(self.site)
        if (self.map.in_features, self.map.out_features) != (plan.width, plan.width):
            raise GramianError(
                f"the map for {self.site} is {self.map.out_features} x {self.map.in_features}, "
                f"expected {plan.width} x {plan.width}"
            )
        linear, constant = self._parts()
        old = draft.tensors[matrix.weight]
        changed: dict[str, Lazy] = {matrix.weight: lambda: _mapped(linear, matrix, old())}
        config: dict[str, Any] = {}
        if matrix.has_bias:
            old_bias = draft.tensors[matrix.bias]
            changed[matrix.bias] = lambda: _affine(linear, constant, old_bias())
        elif constant is not None and bool(constant.count_nonzero()):
            config, slots = _open_bias_slot(draft, matrix, self.site)
            changed |= slots
            like = old
            changed[matrix.bias] = lambda: constant.to(like().dtype)
        return draft.with_tensors(changed, **config)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        site = parse(draft.blueprint.canonical(self.site))
        assert site.layer is not None
        tap = source.tap(f"{draft.origin[site.layer]}.{site.kind}")
        linear, constant = self._parts()

        def after(_module: nn.Module, _args: Any, output: Any) -> Any:
            first = output[0] if isinstance(output, tuple) else output
            mapped = _affine(linear, constant, first)
            return (mapped, *output[1:]) if isinstance(output, tuple) else mapped

        stack.callback(model.get_submodule(tap.path).register_forward_hook(after).remove)

    def describe(self) -> str:
        return f"fold {self.map!r} into the writer of {self.site}"

    def _parts(self) -> tuple[LinearMap, Tensor | None]:
        if isinstance(self.map, Affine):
            return self.map.map, self.map.bias
        return self.map, None


@dataclass(frozen=True)
class DropLayers:
    """Remove whole blocks and renumber the rest; per-layer lists in the configuration follow."""

    layers: tuple[int, ...]
    kind: ClassVar[str] = "drop_layers"

    def __post_init__(self) -> None:
        if not isinstance(self.layers, tuple) or not all(isinstance(i, int) for i in self.layers):
            raise GramianError(
                f"DropLayers({self.layers!r}): expected a tuple of layer numbers, such as (3, 4)"
            )

    def rewrite(self, draft: Draft) -> Draft:
        plan = draft.blueprint
        gone = set(self.layers)
        if not gone or not gone <= set(range(plan.depth)) or len(gone) == plan.depth:
            raise GramianError(
                f"cannot drop layers {sorted(gone)} of a network with layers 0 to "
                f"{plan.depth - 1}; expected some of them, and at least one to stay"
            )
        kept = [i for i in range(plan.depth) if i not in gone]
        prefix = f"{plan.layers_path}."
        tensors: dict[str, Lazy] = {}
        for name, tensor in draft.tensors.items():
            if not name.startswith(prefix):
                tensors[name] = tensor
                continue
            index, _, rest = name.removeprefix(prefix).partition(".")
            if int(index) not in gone:
                tensors[f"{prefix}{kept.index(int(index))}.{rest}"] = tensor
        config = copy.deepcopy(draft.config)
        for key, value in config.to_dict().items():
            if isinstance(value, list) and len(value) == plan.depth:
                setattr(config, key, [value[i] for i in kept])
        setattr(config, plan.depth_key, len(kept))
        origin = tuple(draft.origin[i] for i in kept)
        return Draft(config, tensors, blueprint(config, skeleton(config)), origin)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        def skip(_module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            given = module_input(args, kwargs)
            return (given, *output[1:]) if isinstance(output, tuple) else given

        for layer in self.layers:
            module = model.get_submodule(source.layers[draft.origin[layer]].path)
            handle = module.register_forward_hook(skip, with_kwargs=True)
            stack.callback(handle.remove)

    def describe(self) -> str:
        return f"drop layers {', '.join(map(str, self.layers))}"


@contextmanager
def as_if(model: nn.Module, source: Blueprint, start: Draft, moves: tuple[Move, ...]) -> Any:
    """While open, the unchanged ``model`` computes what the moves should make of it."""
    with ExitStack() as stack:
        draft = start
        for move in moves:
            move.hooks(model, source, draft, stack)
            draft = move.rewrite(draft)
        yield


def _on_outputs(matrix: Matrix, weight: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply ``change`` to the last axis of the weight turned so that outputs come last."""
    turned = weight if matrix.layout == "in_out" else weight.transpose(-1, -2)
    changed = change(turned.double())
    back = changed if matrix.layout == "in_out" else changed.transpose(-1, -2)
    return back.to(weight.dtype).contiguous()


def _mapped(linear: LinearMap, matrix: Matrix, weight: Tensor) -> Tensor:
    return _on_outputs(matrix, weight, linear.to(dtype=torch.float64, device=weight.device))


def _affine(linear: LinearMap, constant: Tensor | None, value: Tensor) -> Tensor:
    moved = linear.to(dtype=torch.float64, device=value.device)(value.double())
    if constant is not None:
        moved = moved + constant.to(moved)
    return moved.to(value.dtype)


def _scaled(reader: Matrix, old: Lazy, gain: Lazy) -> Lazy:
    def scaled() -> Tensor:
        weight = old()
        g = gain()
        wide = g[:, None] if reader.layout == "in_out" else g
        return (weight.double() * wide).to(weight.dtype)

    return scaled


def _shifted(reader: Matrix, bias: Lazy, weight: Lazy, shift: Lazy) -> Lazy:
    """``b + W beta``: the bias of a reader once it has taken the norm's bias."""

    def shifted() -> Tensor:
        w, beta, old = weight().double(), shift().double(), bias()
        moved = beta @ w if reader.layout == "in_out" else w @ beta
        return (old.double() + moved).to(old.dtype)

    return shifted


def _remaining_shift(shift: Lazy, gain: Lazy, absorbed: bool, name: str) -> Lazy:
    """What stays of a norm's bias: nothing, or where the readers have no bias of their own
    ``beta / g``, since ``W (g x + beta) = W diag(g) (x + beta / g)``."""

    def remaining() -> Tensor:
        beta = shift()
        if absorbed:
            return torch.zeros_like(beta)
        g = gain()
        lost = (g == 0) & (beta != 0)
        if bool(lost.any()):
            raise GramianError(
                f"norm {name!r} has a gain of zero and a bias at feature "
                f"{int(lost.nonzero()[0])}, and its readers have no bias: it cannot be folded"
            )
        return torch.where(beta == 0, 0.0, beta.double() / g).to(beta.dtype)

    return remaining


def _open_bias_slot(
    draft: Draft, matrix: Matrix, site: str
) -> tuple[dict[str, Any], dict[str, Lazy]]:
    """Switch on the configuration's bias for a writer; its siblings get zeros."""
    flag = matrix.bias_flag
    if flag is None:
        raise GramianError(
            f"the map for {site} has a constant, but {matrix.weight} of a "
            f"{draft.blueprint.model_type} network has no bias slot; fold the linear part alone "
            "(map.map) or apply the map by a hook"
        )
    slots: dict[str, Lazy] = {}
    for sibling in draft.blueprint.matrices_with_flag(flag):
        if not sibling.has_bias:
            slots[sibling.bias] = _zeros_for(draft.tensors[sibling.weight])
    return {flag: True}, slots


def _zeros_for(weight: Lazy) -> Lazy:
    return lambda: weight().new_zeros(weight().shape[0])
