"""The source computes by hooks what a network of other widths should."""

from __future__ import annotations

import copy
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn

from gramian.networks.blueprint import Norm
from gramian.networks.capture import hidden, module_input
from gramian.networks.moves.axis import Axis
from gramian.networks.moves.resize_axes import Axes
from gramian.networks.moves.resize_tensors import resized_gain


def set_hooks(model: nn.Module, axes: Axes, stack: ExitStack) -> None:
    """Until the stack closes, every place that would not get what it got is given what the new
    features hold of it, and every norm of the stream sees these alone."""
    plan = axes.plan
    narrowed = bool(axes.chosen) and not axes.stream_is_exact
    for layer, old in enumerate(axes.origin):
        for writer in plan.writers(old):
            site = writer.site.rpartition(".")[2]
            axis = axes.z(layer) if site == "attn_out" else axes.mlp(layer)
            if axis is not None and not axis.exact:
                _through(model, writer.matrix.weight, axis, stack)
        if not narrowed:
            continue
        for reader in plan.readers(old):
            place = f"{plan.main.prefix}{layer}.{reader.site.rpartition('.')[2]}"
            _through(model, reader.matrix.weight, axes.stream(place), stack)
        for norm in plan.layers[old].norms.values():
            name = f"{plan.main.prefix}{layer}.{norm.name.rpartition('.')[2]}"
            _narrow_norm(model, norm, name, axes, stack)
    if narrowed and plan.head is not None and plan.main.final_norm is not None:
        _through(model, plan.head.weight, axes.stream("final"), stack)
        final = plan.main.final_norm
        _narrow_norm(model, final, final.name, axes, stack)


def _through(model: nn.Module, weight: str, axis: Axis, stack: ExitStack) -> None:
    """The module of a matrix gets its input as the new features have it."""
    module = model.get_submodule(weight.rpartition(".")[0])

    def before(_module: nn.Module, args: tuple[Any, ...]) -> Any:
        return (axis.back(axis.take(args[0])), *args[1:])

    stack.callback(module.register_forward_pre_hook(before).remove)


def _narrow_norm(model: nn.Module, norm: Norm, name: str, axes: Axes, stack: ExitStack) -> None:
    module, axis, scale = model.get_submodule(norm.path), axes.stream(), axes.written
    small = _small(module, norm, name, axes)
    given = 1 / scale if norm.place == "branch" else 1.0

    def after(_module: nn.Module, args: Any, kwargs: Any, _output: Any) -> Tensor:
        return axis.back(given * small(scale * axis.take(hidden(module_input(args, kwargs)))))

    stack.callback(module.register_forward_hook(after, with_kwargs=True).remove)


def _small(module: nn.Module, norm: Norm, name: str, axes: Axes) -> Any:
    """The norm itself at the new width."""
    small: Any = copy.deepcopy(module)
    axis = axes.stream()
    gain = resized_gain(norm, small.weight.detach(), axis, axes.gain(norm, name))
    small.weight = nn.Parameter(gain, requires_grad=False)
    if norm.bias is not None:
        small.bias = nn.Parameter(axis.take(small.bias.detach()), requires_grad=False)
    if isinstance(small, nn.LayerNorm):
        small.normalized_shape = (len(axis.index),)
    return small
