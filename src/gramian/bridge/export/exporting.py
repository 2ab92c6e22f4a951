"""Write a bridge as what another library opens without Gramian."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gramian.bridge.export.card import card
from gramian.bridge.export.layer import Layer
from gramian.bridge.provenance import digest
from gramian.bridge.saved import SavedBridge
from gramian.errors import GramianError, refuse_existing
from gramian.moments.format import gramian_version
from gramian.moments.tensorfile import file_sha256
from gramian.networks.staging import staged_folder

MARK = "gramian-export.json"
_MODULES = {
    "sentence-transformers": "sentence_module",
    "onnx": "onnx_graph",
    "faiss": "faiss_transform",
    "torch": "torch_layer",
}
KINDS = tuple(_MODULES)


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: str
    to: str
    files: tuple[str, ...]
    dim_from: int
    dim_to: int
    direction: str
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self) | {"files": list(self.files)}


def export_bridge(
    bridge: SavedBridge,
    path: str | Path,
    *,
    to: str,
    model: str | None = None,
    force: bool = False,
    anyway: bool = False,
) -> Exported:
    """Write a bridge as a folder for another library, with a README that says what it is.

    Parameters
    ----------
    to : ``sentence-transformers``: the source encoder with the map behind it, an ordinary
        checkpoint (without ``model`` the Dense module alone). ``onnx``: ``bridge.onnx``, rows
        ``(n, in)`` to ``(n, out)``. ``faiss``: ``linear.vt``, and ``normalise.vt`` where rows are
        scaled to length 1. ``torch``: ``linear.safetensors``, the state of an ``nn.Linear``.
    model : the source encoder: ``bundled:minilm``, a folder, or a Hugging Face id.
    force : replace an earlier export; nothing else is ever replaced.
    anyway : take ``model`` although its weights are not those that the bridge was fitted on.

    Raises
    ------
    GramianError : an unknown kind, a model where none is used, a model of another width or other
        weights, a missing package, or something in the place already.
    """
    if to not in _MODULES:
        raise GramianError(f"export to {to!r}, expected one of {', '.join(KINDS)}")
    if model is not None and to != "sentence-transformers":
        raise GramianError(f"--model goes with --to sentence-transformers, not with {to}")
    path = Path(path)
    refuse_existing(path, force=force)
    if path.exists() and not _replaceable(path):
        raise GramianError(f"{path} is there and is no export; it is not replaced, choose another")
    writer = importlib.import_module(f"gramian.bridge.export.{_MODULES[to]}")
    layer = Layer.of(bridge)
    with staged_folder(path, force=force) as folder:
        if to == "sentence-transformers":
            usage = writer.write(bridge, layer, folder, model=model, anyway=anyway)
        else:
            write: Callable[[SavedBridge, Layer, Path], str] = writer.write
            usage = write(bridge, layer, folder)
        (folder / "README.md").write_text(card(bridge, to, usage, model), encoding="utf-8")
        names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        mark = {
            "gramian": gramian_version(),
            "to": to,
            "bridge": digest(bridge),
            "direction": bridge.direction,
            "normalise": bridge.normalise,
            "source": bridge.source.to_json(),
            "target": bridge.target.to_json(),
            "sha256": {name: file_sha256(folder / name) for name in names},
        }
        (folder / MARK).write_text(json.dumps(mark, indent=2), encoding="utf-8")
        size = sum((folder / name).stat().st_size for name in names)
    return Exported(str(path), to, tuple(names), *layer.dims, bridge.direction, size)


def _replaceable(path: Path) -> bool:
    return path.is_dir() and ((path / MARK).is_file() or not any(path.iterdir()))
