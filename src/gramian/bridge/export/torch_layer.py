"""The state of an nn.Linear in safetensors."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch

from gramian.bridge.export.layer import Layer
from gramian.bridge.saved import SavedBridge

NAME = "linear.safetensors"


def write(bridge: SavedBridge, layer: Layer, folder: Path) -> str:
    """Write ``linear.safetensors`` and say how it is used."""
    tensors = {"weight": layer.weight}
    if layer.bias is not None:
        tensors["bias"] = layer.bias
    safetensors.torch.save_file(
        tensors,
        folder / NAME,
        {
            "direction": bridge.direction,
            "source": bridge.source.name,
            "target": bridge.target.name,
            "normalise": str(bridge.normalise).lower(),
        },
    )
    before, after = layer.dims
    unit = "\ny = torch.nn.functional.normalize(y, dim=1)" if layer.normalise else ""
    return f"""
```python
import torch
from safetensors.torch import load_file

layer = torch.nn.Linear({before}, {after}, bias={layer.bias is not None})
layer.load_state_dict(load_file("{NAME}"))
y = layer(x)  # x: (n, {before}) float32{unit}
```
"""
