"""A bridge as a FAISS transform of vectors."""

from __future__ import annotations

from pathlib import Path

from gramian.bridge.export.layer import Layer
from gramian.bridge.saved import SavedBridge
from gramian.errors import GramianError

LINEAR, UNIT = "linear.vt", "normalise.vt"


def write(bridge: SavedBridge, layer: Layer, folder: Path) -> str:
    """Write ``linear.vt``, with ``normalise.vt`` where rows are scaled, and say how they are used.

    Raises
    ------
    GramianError : the package faiss is missing.
    """
    try:
        import faiss
    except ImportError as error:
        raise GramianError("export to faiss needs pip install 'gramian[faiss]'") from error
    before, after = layer.dims
    linear = faiss.LinearTransform(before, after, layer.bias is not None)
    faiss.copy_array_to_vector(layer.weight.numpy().ravel(), linear.A)
    if layer.bias is not None:
        faiss.copy_array_to_vector(layer.bias.numpy(), linear.b)
    linear.is_trained = True
    linear.set_is_orthonormal()
    faiss.write_VectorTransform(linear, str(folder / LINEAR))
    unit = ""
    if layer.normalise:
        faiss.write_VectorTransform(faiss.NormalizationTransform(after, 2.0), str(folder / UNIT))
        unit = f'\ny = faiss.read_VectorTransform("{UNIT}").apply(y)'
    side = "queries" if bridge.direction == "query_to_old" else "stored vectors, before `add`"
    return f"""
```python
import faiss

y = faiss.read_VectorTransform("{LINEAR}").apply(x)  # x: (n, {before}) float32{unit}
```

Apply it to the {side}, yourself. `IndexPreTransform` is not the place for it: it applies its
transforms to what is added and to what is searched alike, and only one of the two is in the
source space.
"""
