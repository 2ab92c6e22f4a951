"""The two sides of a bridge as a person names them: vectors, or a model and texts."""

from __future__ import annotations

from pathlib import Path

from gramian.bridge.embedders import open_embedder
from gramian.bridge.texts import EmbeddedTexts, Texts
from gramian.bridge.vectors import VectorSource, open_vectors
from gramian.bridge.vectors.opening import is_address
from gramian.errors import GramianError


def side(
    name: str,
    texts: Texts | None,
    *,
    prefix: str = "",
    id_field: str = "id",
    device: str = "cpu",
    dtype: str = "float32",
) -> VectorSource:
    """Vectors at an address, or those that a model gives texts.

    Raises
    ------
    GramianError : a model without texts, or neither a model nor an address.
    """
    if is_address(name):
        return open_vectors(name, id_field=id_field)
    if texts is None:
        raise GramianError(
            f"{name} is a model (or no address of vectors): give the texts to embed with --texts, "
            "or have the other side carry them, as pairs.jsonl of gramian bridge sample does"
        )
    return EmbeddedTexts(texts, open_embedder(name, device=device, dtype=dtype), prefix=prefix)


def texts_for(names: tuple[str, str], path: Path | None) -> Texts | None:
    """The texts of ``--texts``, or those that a side's ``.jsonl`` file carries."""
    if path is not None:
        return Texts.read(path)
    carried = [name.partition("#")[0] for name in names if is_address(name)]
    models = [name for name in names if not is_address(name)]
    for name in carried:
        if models and name.endswith(".jsonl"):
            return Texts.read(Path(name))
    return None
