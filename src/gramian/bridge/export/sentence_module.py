"""A bridge behind the encoder it starts from, as a sentence-transformers checkpoint."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from gramian.bridge.embedders import open_embedder
from gramian.bridge.export.layer import Layer
from gramian.bridge.saved import SavedBridge
from gramian.errors import GramianError
from gramian.networks.sources import resolve

PROMPT = "bridge"


def write(
    bridge: SavedBridge, layer: Layer, folder: Path, *, model: str | None, anyway: bool
) -> str:
    """Write the encoder with a Dense module behind it, or the Dense module alone.

    The Dense module (identity activation) comes after the encoder's own modules, its normalising
    one included, and another normalising module after it where the bridge scales its results.
    A prompt of the source becomes the default prompt.

    Raises
    ------
    GramianError : the library is missing; the model is none of its kind, is of another width, or
        has other weights than the bridge was fitted on.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise GramianError(
            "export to sentence-transformers needs pip install 'gramian[sentence-transformers]'"
        ) from error
    dense, unit = _modules(layer)
    before, after = layer.dims
    if model is None:
        dense.save(str(folder))
        last = ", Normalize()" if layer.normalise else ""
        return f"""
The folder holds a `Dense` module. Put it behind the modules of the source encoder:

```python
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Normalize

encoder = SentenceTransformer("{bridge.source.model or bridge.source.name}")
bridged = SentenceTransformer(modules=[*encoder, Dense.load("."){last}])
```
"""
    location = _location(bridge, model, anyway=anyway)
    try:
        encoder = SentenceTransformer(
            location,
            device="cpu",
            trust_remote_code=False,
            local_files_only=Path(location).is_dir(),
        )
    except (OSError, ValueError, KeyError) as error:
        raise GramianError(f"cannot open {model}: {str(error).splitlines()[0]}") from error
    width = encoder.encode(["width"], show_progress_bar=False).shape[1]
    if width != before:
        raise GramianError(
            f"{model} makes vectors {width} wide, the bridge takes {bridge.source}; give the "
            "model that the bridge starts from"
        )
    parts: list[Any] = [*encoder]
    if bridge.source.unit_norm and type(parts[-1]).__name__ != "Normalize":
        parts.append(type(unit)())
    parts.append(dense)
    if layer.normalise:
        parts.append(unit)
    prompts: dict[str, Any] = dict(encoder.prompts)
    default = encoder.default_prompt_name
    if bridge.source.prefix:
        # the embedder of `fit` put the prefix behind the prompt that the model gives of its own
        prompts[PROMPT] = (prompts[default] if default else "") + bridge.source.prefix
        default = PROMPT
    whole = SentenceTransformer(
        modules=parts, device="cpu", prompts=prompts, default_prompt_name=default
    )
    whole.max_seq_length = encoder.max_seq_length
    whole.save_pretrained(str(folder), create_model_card=False)
    return f"""
```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer("FOLDER").encode(texts)  # (n, {after}), as {bridge.target.name}
```
"""


def _modules(layer: Layer) -> tuple[Any, Any]:
    from torch import nn

    try:
        modules = importlib.import_module("sentence_transformers.sentence_transformer.modules")
    except ModuleNotFoundError:  # where earlier releases have them
        modules = importlib.import_module("sentence_transformers.models")
    before, after = layer.dims
    dense = modules.Dense(
        before,
        after,
        bias=layer.bias is not None,
        activation_function=nn.Identity(),
        init_weight=layer.weight.clone(),
        init_bias=None if layer.bias is None else layer.bias.clone(),
    )
    return dense, modules.Normalize()


def _location(bridge: SavedBridge, model: str, *, anyway: bool) -> str:
    """Where the encoder lies, after comparing its weights with those the bridge was fitted on."""
    refusal = GramianError(
        f"{model} is no sentence-transformers model (there is no modules.json); its pooling would "
        "be a guess. Export without --model and put the Dense module behind your own encoder"
    )
    if model.startswith("openai:") or model == "bundled:wordllama":
        raise refusal
    source = resolve(model)
    location = str(source.location)
    if source.local and not (Path(location) / "modules.json").is_file():
        raise refusal
    expected = bridge.source.fingerprint
    if expected is not None and source.local and not anyway:
        found = open_embedder(model).fingerprint
        if found is not None and found != expected:
            raise GramianError(
                f"the weights of {model} are not those that the bridge was fitted on "
                f"({found[:12]} instead of {expected[:12]}, {bridge.source.name}); give that "
                "model, or --anyway (anyway=True) if it is the same under another name"
            )
    return location
