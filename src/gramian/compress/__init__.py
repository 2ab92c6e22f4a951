"""Smaller networks from moments: depth, width, rank, residual stream, key-value cache."""

from gramian.compress import depth, heads, kv, mlp, rank, resize, slicing
from gramian.compress.compression import Treated, compression
from gramian.compress.sweep import Trial, sweep

__all__ = [
    "Treated",
    "Trial",
    "compression",
    "depth",
    "heads",
    "kv",
    "mlp",
    "rank",
    "resize",
    "slicing",
    "sweep",
]
