"""Modelling code in a folder, so that transformers loads it with ``trust_remote_code``.

The code needs torch and transformers alone: it is the text of the modules that Gramian itself
uses, and two classes that derive from those of the architecture.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from gramian.errors import GramianError
from gramian.networks.quiet import quiet
from gramian.networks.structures import latents, modules, table
from gramian.networks.structures.building import filled
from gramian.networks.structures.table import MARK

_CONFIGURATION, _MODELLING = "configuration_gramian", "modeling_gramian"
_CONFIG, _BASE, _TASK = "GramianConfig", "GramianModel", "GramianForCausalLM"

_CONFIG_TEXT = '''

class {config}({base_config}):
    """The configuration of a ``{model_type}`` network with structured modules."""

    model_type = "{mark}"

    def __post_init__(self, **values: Any) -> None:
        super().__post_init__(**values)
        plan = {base_config}.base_model_tp_plan
        mark = getattr(self, MARK, None)
        if mark is not None:
            found = {structures}
            if plan:
                self.base_model_tp_plan = parallel_plan(plan, found, self.num_hidden_layers)
'''
_MODEL_TEXT = '''

class {name}({base}):
    """``{base}`` with structured modules."""

    config_class = {config}

    def __init__(self, config: Any, *inputs: Any, **named: Any) -> None:
        super().__init__(config, *inputs, **named)
        table = table_of(getattr(config, MARK, None))
        restructure(self, {structures})
'''
_HEADER = '"""Written by Gramian: a {model_type} network with structured modules."""\n\n'


def write_own_code(folder: Path, network: Any, auto: str) -> None:
    """Give a folder that transformers has saved the model type ``gramian`` and its code.

    Parameters
    ----------
    network : the network that was saved; its class or the base of it is one of transformers.
    auto : the ``AutoModel...`` class that opens networks of this kind.

    Raises
    ------
    GramianError : transformers does not export the classes, so that code cannot name them.
    """
    whole, base = _exported(type(network)), _exported(type(network.base_model))
    config = _exported(type(network.config))
    prefix = "" if network.base_model is network else network.base_model_prefix
    path = folder / "config.json"
    values = json.loads(path.read_text())
    model_type = str(values["model_type"])
    within = f'inside(table, "{prefix}")' if prefix else "table"
    texts = {
        _CONFIGURATION: (
            _header(model_type)
            + _body(table)
            + _import(config)
            + _CONFIG_TEXT.format(
                config=_CONFIG,
                base_config=config,
                model_type=model_type,
                mark=MARK,
                structures=within.replace("table", "table_of(mark)"),
            )
        ),
        _MODELLING: (
            _header(model_type)
            + _body(latents)
            + _body(modules)
            + _import(*dict.fromkeys((base, whole)))
            + f"\nfrom .{_CONFIGURATION} import MARK, {_CONFIG}, inside, table_of\n"
            + _MODEL_TEXT.format(name=_BASE, base=base, config=_CONFIG, structures=within)
        ),
    }
    auto_map = {
        "AutoConfig": f"{_CONFIGURATION}.{_CONFIG}",
        "AutoModel": f"{_MODELLING}.{_BASE}",
    }
    if whole != base:
        texts[_MODELLING] += _MODEL_TEXT.format(
            name=_TASK, base=whole, config=_CONFIG, structures="table"
        )
        auto_map[auto] = f"{_MODELLING}.{_TASK}"
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    values[MARK] |= {"model_type": model_type, "architecture": whole}
    values |= {
        "model_type": MARK,
        "architectures": [_TASK if whole != base else _BASE],
        "auto_map": auto_map,
    }
    path.write_text(json.dumps(values, indent=2) + "\n")


def load_with_own_code(folder: Path, auto: str, dtype: torch.dtype) -> nn.Module:
    """The network of a folder, made by the code that lies in it. Only for a folder that was just
    written: it runs that code.

    Raises
    ------
    GramianError : a tensor is missing.
    """
    auto_map = json.loads((folder / "config.json").read_text())["auto_map"]
    package = f"_gramian_written_{id(folder)}"
    loaded = {package: ModuleType(package)}
    loaded[package].__path__ = [str(folder)]
    sys.modules[package] = loaded[package]
    try:
        classes = {}
        for name in ("AutoConfig", auto):
            file, _, kind = auto_map[name].partition(".")
            classes[name] = getattr(_module(package, file, folder), kind)
        config = classes["AutoConfig"].from_pretrained(folder)
        with quiet():
            model: nn.Module = filled(
                classes[auto], folder, config=config, dtype=dtype, use_safetensors=True
            )
    finally:
        for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
            del sys.modules[name]
    return model


def _module(package: str, name: str, folder: Path) -> ModuleType:
    """A module of the folder; nothing is left in the folder, and nothing is looked up elsewhere."""
    full = f"{package}.{name}"
    if full not in sys.modules:
        path = folder / f"{name}.py"
        module = ModuleType(full)
        module.__file__, module.__package__ = str(path), package
        sys.modules[full] = module
        exec(compile(path.read_text(), path, "exec"), module.__dict__)
    return sys.modules[full]


def _header(model_type: str) -> str:
    return _HEADER.format(model_type=model_type) + "from __future__ import annotations\n"


def _body(module: ModuleType) -> str:
    """The text of a module behind its docstring and its import from the future."""
    text = Path(str(module.__file__)).read_text()
    rest = text.partition("from __future__ import annotations\n")[2]
    return "".join(line for line in rest.splitlines(True) if not line.startswith("from gramian."))


def _import(*names: str) -> str:
    return f"\nfrom transformers import {', '.join(sorted(names))}\n"


def _exported(kind: Any) -> str:
    """The name of the class of transformers that this is, or that it is derived from."""
    import transformers

    own: Any = next(one for one in kind.__mro__ if one.__module__.startswith("transformers."))
    name = str(own.__name__)
    if getattr(transformers, name, None) is not own:
        raise GramianError(
            f"transformers has no {name} that the code of a folder could name; multiply "
            "the factors out"
        )
    return name
