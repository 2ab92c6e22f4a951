"""How large a model is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Size:
    """What a model stores."""

    parameters: int
    """Numbers in its parameters, tied ones once."""
    bytes: int
    """Bytes of its parameters and saved buffers, tied ones once."""

    def to_json(self) -> dict[str, Any]:
        """``{"parameters", "bytes"}``."""
        return {"parameters": self.parameters, "bytes": self.bytes}


def size(model: nn.Module) -> Size:
    """Parameters and bytes of a model, with tied tensors counted once.

    Two tensors are tied when they are one object, or the same stretch of memory.
    """
    distinct: dict[tuple[Any, ...], Tensor] = {}
    for tensor in model.state_dict(keep_vars=True).values():
        if isinstance(tensor, Tensor):
            memory = id(tensor) if tensor.is_meta or not tensor.numel() else tensor.data_ptr()
            distinct.setdefault((memory, tensor.numel(), tensor.dtype), tensor)
    return Size(
        parameters=sum(t.numel() for t in distinct.values() if isinstance(t, nn.Parameter)),
        bytes=sum(t.numel() * t.element_size() for t in distinct.values()),
    )
