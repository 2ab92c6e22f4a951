"""Structured networks in memory, from a configuration with a mark."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
from torch import nn

from gramian.errors import GramianError
from gramian.networks.structures.marks import structures_of
from gramian.networks.structures.modules import restructure


def with_structures(model: nn.Module, config: Any) -> nn.Module:
    """The model itself, its modules put in the structure that the configuration says.

    Raises
    ------
    GramianError : a structure does not fit the network.
    """
    try:
        restructure(model, structures_of(config))
    except ValueError as error:
        raise GramianError(f"the structures do not fit: {error}") from None
    return model


def structured(base: Any, config: Any) -> Any:
    """A network of the class ``base`` on the meta device, with its structures."""
    with torch.device("meta"):
        return with_structures(base(copy.deepcopy(config)), config)


@cache
def structured_class(base: Any) -> Any:
    """The subclass of a transformers class whose networks are made with their structures."""

    class Structured(base):  # type: ignore[misc]
        def __init__(self, config: Any, *inputs: Any, **named: Any) -> None:
            super().__init__(config, *inputs, **named)
            with_structures(self, config)

    Structured.__name__ = Structured.__qualname__ = base.__name__
    return Structured


def loader(config: Any) -> Any:
    """The class whose ``from_pretrained`` reads the weights of a structured network.

    Raises
    ------
    GramianError : this version of transformers does not have it.
    """
    import transformers

    names = getattr(config, "architectures", None) or [""]
    found: Any = getattr(transformers, str(names[0]), None)
    base: Any = found if isinstance(found, type) else None
    if base is None or not issubclass(base, transformers.PreTrainedModel):
        raise GramianError(
            f"this network was made from the class {names[0]!r}, which this version of "
            "transformers does not have"
        )
    return structured_class(base)


def filled(kind: Any, *place: Any, **how: Any) -> Any:
    """``kind.from_pretrained(...)`` that refuses to make numbers up.

    Raises
    ------
    GramianError : a tensor is missing.
    """
    model, found = kind.from_pretrained(*place, output_loading_info=True, **how)
    if lacking := sorted(found["missing_keys"]):
        raise GramianError(f"the network lacks its tensor {lacking[0]!r}; copy the folder again")
    return model.eval()
