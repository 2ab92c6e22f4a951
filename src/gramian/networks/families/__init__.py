"""One small table per ``model_type``: how that family names the parts of a blueprint."""

from __future__ import annotations

from typing import Any

from torch import nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint
from gramian.networks.families.decoders import DECODERS
from gramian.networks.families.encoders import ENCODERS
from gramian.networks.families.reading import read
from gramian.networks.families.shape import Family, Table
from gramian.networks.families.two_towers import TWO_TOWERS

FAMILIES: dict[str, Table] = {**DECODERS, **ENCODERS, **TWO_TOWERS}

__all__ = ["FAMILIES", "Family", "blueprint", "family"]


def family(config: Any) -> Family | None:
    """The table for a configuration; None where there is none."""
    table = FAMILIES.get(str(getattr(config, "model_type", "")))
    return table(config) if callable(table) else table


def blueprint(config: Any, model: nn.Module) -> Blueprint:
    """The blueprint of a transformers model (its weights may be on the meta device).

    Raises
    ------
    GramianError : no table for ``config.model_type``, or a part that the table names is missing.
    """
    model_type = str(getattr(config, "model_type", ""))
    found = family(config)
    if found is None:
        raise GramianError(
            f"no blueprint for model class {type(model).__name__} (model_type {model_type!r}); "
            f"known model types: {', '.join(sorted(FAMILIES))}"
        )
    return read(found, config, model, model_type)
