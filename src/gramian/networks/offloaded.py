"""Networks whose layers accelerate keeps elsewhere: on the CPU or on disk, fetched as they run."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor, nn

from gramian.errors import GramianError


def check_device_map() -> None:
    """Refuse ``device_map`` where accelerate is missing.

    Raises
    ------
    GramianError : it is.
    """
    if importlib.util.find_spec("accelerate") is None:
        raise GramianError("device_map needs accelerate: pip install 'gramian[accelerate]'")


def input_device(model: nn.Module) -> torch.device:
    """Where a network takes its inputs: the device of its first weight, or the one on which that
    weight is used when it is kept elsewhere."""
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            if parameter.device.type != "meta":
                return parameter.device
            return torch.device(getattr(_hook(module), "execution_device", None) or "cpu")
    return torch.device("cpu")


def present(model: nn.Module, name: str, tensor: Tensor) -> Tensor:
    """A tensor of the network's state: itself, or its values where they are kept elsewhere.

    Raises
    ------
    GramianError : it has no values.
    """
    if tensor.device.type != "meta":
        return tensor
    path, _, own = name.rpartition(".")
    kept = getattr(_hook(model.get_submodule(path)), "weights_map", None)
    if kept is None:
        raise GramianError(f"the weight {name} of {type(model).__name__} has no values")
    found: Tensor = kept[own]
    return found.to(tensor.dtype)


def _hook(module: nn.Module) -> Any:
    """The hook that fetches a module's weights; None without one."""
    hook: Any = getattr(module, "_hf_hook", None)
    inner = getattr(hook, "hooks", (hook,))
    return next((one for one in inner if hasattr(one, "weights_map")), None)
