"""Linear maps inside trained neural networks: find, judge, use and fuse them.

>>> import gramian as gm
>>> base = gm.open("bundled:smollm2")                               # doctest: +SKIP
>>> docs = gm.documents("bundled:pydocs")                           # doctest: +SKIP
>>> m = gm.collect(base, docs, gm.lens.needs(base), tokens=32_768)  # doctest: +SKIP
>>> gm.lens.solve(base, m)["12.resid_pre"].r2                       # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramian import (
        bridge,
        compare,
        compress,
        data,
        evaluate,
        inspect,
        lens,
        maps,
        measures,
        moments,
        networks,
        report,
        solvers,
    )
    from gramian.data import documents
    from gramian.errors import GramianError
    from gramian.moments import JointMoments, Moments, MomentSet, Quadratic, add_moments
    from gramian.networks import (
        Arrange,
        CentreWriters,
        CombineLayers,
        DropLayers,
        FoldMap,
        FoldNorm,
        FoldReader,
        FoldStream,
        Insert,
        Narrow,
        Need,
        Needs,
        Plan,
        Replace,
        Resize,
        Rotate,
        SelectHeads,
        SelectNeurons,
        SplitLinear,
        apply,
        collect,
        collect_on_ray,
        collect_pair,
        open,
    )
    from gramian.registry import methods

_NAMES = {
    "documents": "gramian.data",
    "GramianError": "gramian.errors",
    "JointMoments": "gramian.moments",
    "MomentSet": "gramian.moments",
    "Moments": "gramian.moments",
    "Quadratic": "gramian.moments",
    "add_moments": "gramian.moments",
    "Arrange": "gramian.networks",
    "CentreWriters": "gramian.networks",
    "CombineLayers": "gramian.networks",
    "DropLayers": "gramian.networks",
    "FoldMap": "gramian.networks",
    "FoldNorm": "gramian.networks",
    "FoldReader": "gramian.networks",
    "FoldStream": "gramian.networks",
    "Insert": "gramian.networks",
    "Narrow": "gramian.networks",
    "Need": "gramian.networks",
    "Needs": "gramian.networks",
    "Plan": "gramian.networks",
    "Replace": "gramian.networks",
    "Resize": "gramian.networks",
    "Rotate": "gramian.networks",
    "SelectHeads": "gramian.networks",
    "SelectNeurons": "gramian.networks",
    "SplitLinear": "gramian.networks",
    "apply": "gramian.networks",
    "collect": "gramian.networks",
    "collect_on_ray": "gramian.networks",
    "collect_pair": "gramian.networks",
    "open": "gramian.networks",
    "methods": "gramian.registry",
}
_ROOMS = (
    "bridge",
    "compare",
    "compress",
    "data",
    "evaluate",
    "inspect",
    "lens",
    "maps",
    "measures",
    "moments",
    "networks",
    "report",
    "solvers",
)

__all__ = [
    "Arrange",
    "CentreWriters",
    "CombineLayers",
    "DropLayers",
    "FoldMap",
    "FoldNorm",
    "FoldReader",
    "FoldStream",
    "GramianError",
    "Insert",
    "JointMoments",
    "MomentSet",
    "Moments",
    "Narrow",
    "Need",
    "Needs",
    "Plan",
    "Quadratic",
    "Replace",
    "Resize",
    "Rotate",
    "SelectHeads",
    "SelectNeurons",
    "SplitLinear",
    "add_moments",
    "apply",
    "bridge",
    "collect",
    "collect_on_ray",
    "collect_pair",
    "compare",
    "compress",
    "data",
    "documents",
    "evaluate",
    "inspect",
    "lens",
    "maps",
    "measures",
    "methods",
    "moments",
    "networks",
    "open",
    "report",
    "solvers",
]


def __getattr__(name: str) -> Any:
    """Rooms and verbs are imported when they are first used: ``import gramian`` is instant."""
    if name in _ROOMS:
        return importlib.import_module(f"gramian.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'gramian' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__])
