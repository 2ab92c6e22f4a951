"""Other sizes of a network: smaller as a start for training, larger with the same function."""

from gramian.compress.resize.grow import grow
from gramian.compress.resize.needs import needs
from gramian.compress.resize.shape import Shape, shape_of
from gramian.compress.resize.shrink import shrink

__all__ = ["Shape", "grow", "needs", "shape_of", "shrink"]
