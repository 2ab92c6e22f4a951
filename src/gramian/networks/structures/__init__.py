"""Networks some of whose linears are stored in another structure: marks, modules, own code.

An ordinary architecture has no place for two factors, so such a folder says so: its
``config.json`` has the model type ``gramian``, which no program mistakes for a model that it
knows, and under ``"gramian"`` the model type it had and the structure of every module that has one.
:func:`gramian.open` reads it from that table alone; transformers reads it with the modelling code
that lies in the folder, if it is trusted to.
"""

from gramian.networks.structures.building import structured, structured_class, with_structures
from gramian.networks.structures.marks import (
    factors_of,
    marked,
    read_config,
    structures_of,
)
from gramian.networks.structures.own_code import load_with_own_code, write_own_code
from gramian.networks.structures.table import MARK, PARTS, WHOLE

__all__ = [
    "MARK",
    "PARTS",
    "WHOLE",
    "factors_of",
    "load_with_own_code",
    "marked",
    "read_config",
    "structured",
    "structured_class",
    "structures_of",
    "with_structures",
    "write_own_code",
]
