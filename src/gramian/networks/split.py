"""Networks in which a linear is stored as two factors: their marks, classes and modules.

An ordinary architecture has no place for two factors, so such a folder says so: its
``config.json`` has the model type ``gramian``, which no other program mistakes for a model that
it knows, and under ``"gramian"`` the model type it had and the rank of every linear that is
split. :func:`gramian.open` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.quiet import quiet

MARK = "gramian"
_VERSION = 1


def splits_of(config: Any) -> dict[str, int]:
    """Module path -> rank of every linear that is stored as two factors."""
    mark = getattr(config, MARK, None)
    return dict(mark["splits"]) if isinstance(mark, Mapping) else {}


def marked(splits: Mapping[str, int]) -> dict[str, Any]:
    """The configuration entry that says which linears are split."""
    return {MARK: {"version": _VERSION, "splits": dict(splits)}}


def split_modules(model: nn.Module, splits: Mapping[str, int]) -> None:
    """Put two linears in the place of every linear that is split; their weights are not set."""
    for path, rank in splits.items():
        model.set_submodule(path, _factors(model.get_submodule(path), rank))


def filled(base: Any, config: Any, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> Any:
    """A network of the class ``base`` with these tensors, its split linears as two factors.

    Raises
    ------
    GramianError : a tensor is missing.
    """
    whole: dict[str, Tensor] = dict(tensors)
    factors: dict[str, Tensor] = {}
    splits = splits_of(config)
    with torch.device("meta"):
        empty = base(config) if splits else nn.Module()
    for path in splits:
        parts = [name for name in whole if name.startswith(f"{path}.")]
        factors |= {name: whole.pop(name).to(dtype) for name in parts}
        up, down = factors[f"{path}.1.weight"], factors[f"{path}.0.weight"]
        whole[f"{path}.weight"] = _oriented(empty.get_submodule(path), up.float() @ down.float())
        if f"{path}.1.bias" in factors:
            whole[f"{path}.bias"] = factors[f"{path}.1.bias"]
    with quiet():
        model, found = base.from_pretrained(
            None, config=config, state_dict=whole, dtype=dtype, output_loading_info=True
        )
    if lacking := sorted(found["missing_keys"]):
        raise GramianError(f"the network lacks its tensor {lacking[0]!r}; copy the folder again")
    split_modules(model, splits)
    model.load_state_dict(factors, strict=False, assign=True)
    return model.eval()


def split_loader(config: Any) -> Any:
    """What reads the weights of a folder that :func:`read_config` recognised."""
    import transformers

    names = getattr(config, "architectures", None) or [""]
    base: Any = getattr(transformers, str(names[0]), None)
    if base is None:
        raise GramianError(
            f"this network was made from the class {names[0]!r}, which this version of "
            "transformers does not have"
        )

    def load(folder: str, *, dtype: torch.dtype, **_how: Any) -> Any:
        tensors: dict[str, Tensor] = {}
        for shard in sorted(Path(folder).glob("*.safetensors")):
            tensors |= load_file(shard)
        try:
            return filled(base, config, tensors, dtype)
        except KeyError as error:
            raise GramianError(f"{folder} lacks the factor {error}; copy it again") from None

    return load


def hide(folder: Path) -> None:
    """Give a written folder the model type ``gramian``."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config[MARK]["model_type"] = config["model_type"]
    path.write_text(json.dumps({**config, "model_type": MARK}, indent=2) + "\n")


def read_config(folder: str | Path) -> Any | None:
    """The configuration of a folder with split linears; None for any other.

    Raises
    ------
    GramianError : the mark is damaged or of another version.
    """
    path = Path(folder) / "config.json"
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("model_type") != MARK:
        return None
    mark = found.get(MARK)
    try:
        assert isinstance(mark, dict)
        version, splits, model_type = mark["version"], mark["splits"], mark["model_type"]
        assert all(isinstance(k, str) and type(v) is int for k, v in splits.items())
    except (AssertionError, KeyError, AttributeError):
        raise GramianError(
            f"{path} has the model type {MARK!r} and no valid entry {MARK!r} beside it; write the "
            "folder again"
        ) from None
    if version != _VERSION:
        raise GramianError(
            f"{path} has split linears of version {version}, this reads {_VERSION}; use the "
            "version of gramian that wrote it"
        )
    return _config(model_type, {**found, "model_type": model_type}, path)


def _config(model_type: str, values: dict[str, Any], path: Path) -> Any:
    from transformers import AutoConfig

    factory: Any = AutoConfig
    try:
        return factory.for_model(model_type, **_without(values, "model_type"))
    except ValueError as error:
        raise GramianError(
            f"{path} was made from a {model_type!r} network, which this version of transformers "
            f"does not know ({str(error).splitlines()[0]})"
        ) from None


def _without(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def _oriented(linear: nn.Module, weight: Tensor) -> Tensor:
    """A weight (out, in) the way round that the module stores it."""
    return (weight if isinstance(linear, nn.Linear) else weight.T).contiguous()


def _factors(linear: nn.Module, rank: int) -> nn.Sequential:
    """Two linears in place of one: in -> rank -> out, the bias on the second."""
    weight: Any = linear.weight
    flipped = not isinstance(linear, nn.Linear)
    wide, high = weight.shape if flipped else weight.shape[::-1]
    where = {"device": weight.device, "dtype": weight.dtype}
    return nn.Sequential(
        nn.Linear(wide, rank, bias=False, **where),
        nn.Linear(rank, high, bias=linear.bias is not None, **where),
    )
