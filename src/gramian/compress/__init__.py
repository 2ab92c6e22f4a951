"""Smaller networks from moments: depth, width, rank, residual stream, key-value cache."""

from gramian.compress import depth, heads, mlp, resize
from gramian.compress.compression import Treated, compression

__all__ = ["Treated", "compression", "depth", "heads", "mlp", "resize"]
