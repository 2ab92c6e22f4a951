"""Where a written checkpoint loads: what was tried, and what its names and settings allow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from torch import nn

from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.structures import structures_of

_OTHERS = {"vLLM": "as it is", "llama.cpp": "after conversion to GGUF"}
_K_QUANTS = "llama.cpp k-quants"
_BLOCK = 256
"""Numbers of a row that a k-quant packs together."""


def reach(before: Draft, after: Draft) -> dict[str, str]:
    """Program -> what is known about the written folder there.

    Only transformers (and, for structured modules, Gramian) was tried. Of other programs it says
    what follows from the architecture, the names of the tensors and the configuration:
    ``expected`` where none of them is new, and else what to check.
    """
    if structures_of(after.config):
        return _with_own_code(after)
    new = sorted(_patterns(after.tensors) - _patterns(before.tensors))
    settings = _changed_settings(before, after)
    kind = after.blueprint.model_type
    result = {"transformers": "loaded again and compared"}
    for program, how in _OTHERS.items():
        if new or settings:
            unusual = ", ".join([*new[:3], *settings[:3]])
            result[program] = f"not known: check that it reads {unusual} of a {kind} network"
        else:
            result[program] = (
                f"expected {how}, where it reads {kind}: tensor names and settings are the source's"
            )
    result[_K_QUANTS] = _k_quants(after.empty, after.blueprint)
    return result


def _with_own_code(after: Draft) -> dict[str, str]:
    table = structures_of(after.config)
    count, cached = len(table), any("ranks" in structure for structure in table.values())
    reason = (
        "no: attention caches coordinates, for which it has no code"
        if cached
        else f"no: {'1 linear is' if count == 1 else f'{count} linears are'} stored as factors"
    )
    return {
        "gramian": "loaded again and compared, without the folder's code",
        "transformers": "loaded again with the folder's code (trust_remote_code=True) and compared",
        "vLLM": _transformers_backend(after),
        **dict.fromkeys(("llama.cpp", _K_QUANTS), reason),
    }


def _transformers_backend(after: Draft) -> str:
    """What vLLM's documented rules for models with code of their own say of this one."""
    plan, kind = after.blueprint, type(after.empty)
    if any("ranks" in structure for structure in structures_of(after.config).values()):
        return "no: it keeps a cache of its own, of whole keys and values"
    if not getattr(kind, "_supports_attention_backend", False):
        return f"no: {kind.__name__} does not use the attention interface of transformers"
    head = plan.head
    if head is not None and head.weight.removesuffix(".weight") in structures_of(after.config):
        return "no: it has a head of its own, and this one is stored as factors"
    if head is None or not plan.causal:
        return "not known: rules for models with code of their own are met for decoders only"
    if any(writer.matrix.is_experts for writer in plan.stream_writers()):
        return "not known: it has rules of its own for experts"
    return "expected (trust_remote_code, its Transformers backend): rules met, not run"


def _k_quants(empty: nn.Module, plan: Blueprint) -> str:
    """Whether the rows of the matrices divide into the blocks of llama.cpp's k-quants."""
    rows = Counter(_row_lengths(empty, plan))
    odd = {length: count for length, count in sorted(rows.items()) if length % _BLOCK}
    total = rows.total()
    if not odd:
        return f"expected to apply: the rows of all {total} matrices are multiples of {_BLOCK}"
    lengths = ", ".join(f"{length:,}" for length in odd)
    return (
        f"{sum(odd.values())} of {total} matrices have rows of {lengths} numbers, no multiple of "
        f"{_BLOCK}: it stores them in larger types (Q4_K as Q5_0, Q5_K as Q5_1, Q6_K as Q8_0; "
        "as F16 where 32 does not divide the row)"
    )


def _row_lengths(empty: nn.Module, plan: Blueprint) -> Iterable[int]:
    """The input width of every matrix that is quantized: linears, experts, the token table."""
    from transformers.pytorch_utils import Conv1D

    tied = None if plan.head is None or not plan.tied else plan.head.weight
    for name, module in empty.named_modules():
        if isinstance(module, nn.Linear) and f"{name}.weight" != tied:
            yield module.in_features
        elif isinstance(module, Conv1D):
            yield int(module.weight.shape[0])
    yield int(empty.get_parameter(plan.embeddings[0]).shape[1])
    matrices = [reader.matrix for reader in plan.stream_readers()]
    matrices += [writer.matrix for writer in plan.stream_writers()]
    experts = {matrix.weight: matrix for matrix in matrices if matrix.is_experts}
    for name, matrix in experts.items():
        yield int(empty.get_parameter(name).shape[-2 if matrix.inputs_first else -1])


def _patterns(names: Iterable[str]) -> set[str]:
    return {re.sub(r"\.\d+\.", ".*.", name) for name in names}


def _changed_settings(before: Draft, after: Draft) -> list[str]:
    """Configuration entries with new values, other than the numbers of layers, neurons and heads,
    which every program reads, and lists of one value per layer. With fewer heads in a stream of
    the old width, the width of a head no longer follows from both and has to be read."""
    old: dict[str, Any] = before.config.to_dict()
    new: dict[str, Any] = after.config.to_dict()
    tower = before.blueprint.main
    counts = {tower.depth_key, tower.inner_key, tower.heads_key, "num_key_value_heads"}
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    heads = [getattr(one.config, tower.heads_key, None) for one in (before, after)]
    if heads[0] != heads[1] and "head_dim" in new:
        changed.add("head_dim")
    return [
        f"{key} = {new.get(key)}"
        for key in sorted(changed)
        if key not in counts and not _per_layer(key, old, before)
    ]


def _per_layer(key: str, values: dict[str, Any], draft: Draft) -> bool:
    value = values.get(key)
    return isinstance(value, (list, tuple)) and len(value) == draft.blueprint.depth
