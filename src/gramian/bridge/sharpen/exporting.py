"""A model with sharper vectors, as a sentence-transformers checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from gramian.bridge.export import sentence_module
from gramian.bridge.export.exporting import MARK
from gramian.bridge.export.layer import Layer
from gramian.bridge.saved import SavedBridge, Space
from gramian.errors import GramianError, refuse_existing
from gramian.maps import LinearMap
from gramian.moments.format import gramian_version
from gramian.moments.tensorfile import file_sha256
from gramian.networks.staging import staged_folder


def export_sharpened(
    map: LinearMap,
    source: Space,
    path: str | Path,
    *,
    model: str | None = None,
    method: str = "whitening",
    normalise: bool = True,
    force: bool = False,
) -> Path:
    """Write a map of a model's own vectors as a Dense module behind that model.

    Unlike a bridge it takes queries and stored vectors alike: both have to go through it, and an
    index of vectors from before it is no use to queries from after it.

    Parameters
    ----------
    map : of `whiten_vectors`, `reduce_width` or any other that starts from the model's vectors.
    source : the model. model : the encoder itself, ``bundled:minilm``, a folder or a Hugging Face
        id; None writes the Dense module alone.
    method : a word for the README. normalise : scale the results to length 1.
    force : replace an earlier export; nothing else is ever replaced.

    Raises
    ------
    GramianError : a map of another width than the source, a model of another width, a missing
        package, or something in the place already.
    """
    path = Path(path)
    refuse_existing(path, force=force)
    if path.exists() and not (path / MARK).is_file():
        raise GramianError(f"{path} is there and is no export; it is not replaced, choose another")
    target = Space(f"{source.name} after {method}", map.out_features, unit_norm=normalise)
    # a direction has no meaning here: both sides go through the map
    bridge = SavedBridge(map, source, target, "old_to_new", method, 0, normalise=normalise)
    with staged_folder(path, force=force) as folder:
        usage = sentence_module.write(
            bridge, Layer.of(bridge), folder, model=model, anyway=False
        ).strip()
        (folder / "README.md").write_text(
            f"# {target.name}\n\n"
            f"Vectors of {source} after a linear map ({method}), {target.dim} wide"
            f"{', scaled to length 1' if normalise else ''}. Written by Gramian.\n\n"
            "Queries and documents both have to be embedded with it: vectors of the plain model "
            f"do not compare with these.\n\n## Use\n\n{usage}\n",
            encoding="utf-8",
        )
        names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        mark = {
            "gramian": gramian_version(),
            "to": "sentence-transformers",
            "method": method,
            "normalise": normalise,
            "source": source.to_json(),
            "sha256": {name: file_sha256(folder / name) for name in names},
        }
        (folder / MARK).write_text(json.dumps(mark, indent=2), encoding="utf-8")
    return path
