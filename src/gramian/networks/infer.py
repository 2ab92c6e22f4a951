"""The blueprint of a decoder that has no table: found by looking, believed after running."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint
from gramian.networks.infer_layer import infer_layer, norm_kind
from gramian.networks.parts import Matrix, Norm, Tower
from gramian.networks.probing import Trace, same, seeded_ids, trace


def infer(model: nn.Module) -> Blueprint:
    """Find the layers, the residual stream and what writes into it, in a model without a table.

    The model runs twice on a few random tokens. A list of layers is accepted where every layer
    hands its output to the next, and a layer where what it adds to the stream is the sum of
    outputs of its own sub-modules (times a factor), to the rounding of the dtype. Layers may
    differ. The branch that mixes positions is called ``attn`` (also where it is a convolution
    or a state space), the other one ``mlp``. Language models inside multimodal wrappers are
    found too. The result is for reading: ``inferred`` is true, and plans refuse it.

    Parameters
    ----------
    model : a transformers model with its weights, which takes ``input_ids``.

    Raises
    ------
    GramianError : nothing that the run verifies; says which layer, and what about it.
    """
    embed = _embedding(model)
    width = int(embed[1].shape[-1])
    seen = trace(model, seeded_ids(model, int(embed[1].shape[0])))
    path = _stack(model, seen, width)
    depth = len(model.get_submodule(path))  # type: ignore[arg-type]
    factors = _factors(getattr(model, "config", None))
    layers = tuple(infer_layer(seen, i, f"{path}.{i}", width, factors) for i in range(depth))
    ending = _ending(model, seen, layers[-1].path)
    config: Any = model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    first = seen.calls[layers[0].path].given
    tower = Tower(
        name="",
        width=width,
        vocabulary=int(embed[1].shape[0]),
        layers=layers,
        layers_path=path,
        depth_key="num_hidden_layers",
        embed=embed[0],
        embeddings=(f"{embed[0]}.weight",),
        entry=(),
        entry_norms=(),
        final_norm=ending.norm,
        head=ending.head,
        causal=_is_causal(model, seen, layers[-1].path),
        closed=embed[0] in seen.calls and same(seen.calls[embed[0]].returned, first),
    )
    return Blueprint(
        model_type=str(getattr(config, "model_type", type(model).__name__)),
        towers=(tower,),
        main_name="",
        head=ending.head,
        tied=ending.head is not None and bool(getattr(text, "tie_word_embeddings", False)),
        inferred=True,
    )


@dataclass(frozen=True)
class _Ending:
    norm: Norm | None
    head: Matrix | None


def _embedding(model: Any) -> tuple[str, Tensor]:
    """Path and table of the token embedding."""
    find = getattr(model, "get_input_embeddings", None)
    module = find() if callable(find) else None
    weight = getattr(module, "weight", None)
    for name, found in model.named_modules():
        if found is module and isinstance(weight, Tensor) and weight.dim() == 2:
            return name, weight
    raise GramianError(
        f"cannot infer a blueprint of {type(model).__name__}: it has no token embedding; "
        "expected a transformers language model"
    )


def _stack(model: nn.Module, seen: Trace, width: int) -> str:
    """The module list whose members hand a stream of this width on, the longest there is."""
    found: dict[str, int] = {}
    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or len(module) == 0:
            continue
        calls = [seen.calls.get(f"{name}.{i}") for i in range(len(module))]
        known = [call for call in calls if call is not None]
        shape = (*seen.ids.shape, width)
        if len(known) != len(calls) or any(
            call.given.shape != shape or call.returned.shape != shape for call in known
        ):
            continue
        steps = pairwise(known)
        if all(same(call.returned, following.given) for call, following in steps):
            found[name] = len(module)
    if not found:
        raise GramianError(
            f"cannot infer a blueprint of {type(model).__name__}: no list of layers hands a "
            f"residual stream of width {width} from one member to the next; its architecture "
            "needs a table"
        )
    return max(found, key=lambda name: found[name])


def _ending(model: Any, seen: Trace, last: str) -> _Ending:
    """The norm after the last layer, and the head if it reads that norm's output alone."""
    final = seen.calls[last].returned
    norm: Norm | None = None
    normed = final
    for name, call in seen.calls.items():
        after = call.order > seen.calls[last].order and same(call.given, final)
        kind = norm_kind(model.get_submodule(name), call) if after else None
        if kind is not None:
            shifts = getattr(model.get_submodule(name), "bias", None) is not None
            norm, normed = Norm("final", name, kind, (), shifts=shifts), call.returned
            break
    find = getattr(model, "get_output_embeddings", None)
    module = find() if callable(find) else None
    paths = [name for name, found in model.named_modules() if found is module and name]
    if norm is None or not paths or seen.logits is None:
        return _Ending(norm, None)
    with torch.no_grad():
        verified = same(module(normed), seen.logits)  # type: ignore[misc]
    if not verified:
        return _Ending(norm, None)
    path = paths[0]
    has_bias = getattr(module, "bias", None) is not None
    head = Matrix(f"{path}.weight", "out_in", f"{path}.bias", has_bias)
    return _Ending(Norm("final", norm.path, norm.kind, (head,), shifts=norm.shifts), head)


def _is_causal(model: nn.Module, seen: Trace, last: str) -> bool:
    """Whether what comes before a token stays the same when the token changes."""
    other = seen.ids.clone()
    other[:, -1] = seen.ids[:, 0] + (seen.ids[:, 0] == seen.ids[:, -1]).long()
    changed = trace(model, other).calls[last].returned
    return same(changed[:, :-1], seen.calls[last].returned[:, :-1])


def _factors(config: Any) -> tuple[float, ...]:
    """The numbers in the configuration that a branch may be multiplied by."""
    if config is None:
        return ()
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return tuple(v for v in text.to_dict().values() if isinstance(v, float) and v > 0)
