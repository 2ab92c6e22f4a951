"""Where a written checkpoint loads: what was tried, and what its names and settings allow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gramian.networks.draft import Draft
from gramian.networks.split import splits_of

_OTHERS = {"vLLM": "as it is", "llama.cpp": "after conversion to GGUF"}


def reach(before: Draft, after: Draft) -> dict[str, str]:
    """Program -> what is known about the written folder there.

    Only transformers (or, for split linears, Gramian) was tried. Of other programs it says what
    follows from the architecture, the names of the tensors and the configuration: ``expected``
    where none of them is new, and else what to check.
    """
    count = len(splits_of(after.config))
    if count:
        reason = f"no: {'1 linear is' if count == 1 else f'{count} linears are'} stored as factors"
        tried = {"gramian": "loaded again and compared"}
        return tried | dict.fromkeys(("transformers", *_OTHERS), reason)
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
    return result


def _patterns(names: Iterable[str]) -> set[str]:
    return {re.sub(r"\.\d+\.", ".*.", name) for name in names}


def _changed_settings(before: Draft, after: Draft) -> list[str]:
    """Configuration entries with new values, other than the number of layers and lists of one
    value per layer."""
    old: dict[str, Any] = before.config.to_dict()
    new: dict[str, Any] = after.config.to_dict()
    counts = {before.blueprint.depth_key}
    return [
        f"{key} = {new.get(key)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and key not in counts and not _per_layer(key, old, before)
    ]


def _per_layer(key: str, values: dict[str, Any], draft: Draft) -> bool:
    value = values.get(key)
    return isinstance(value, (list, tuple)) and len(value) == draft.blueprint.depth
