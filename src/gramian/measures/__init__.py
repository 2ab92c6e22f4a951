"""From moments to numbers: pure functions in float64."""

from gramian.measures.effective_rank import effective_rank, participation_ratio, stable_rank
from gramian.measures.linearity import adjusted, held_out_linearity, linearity

__all__ = [
    "adjusted",
    "effective_rank",
    "held_out_linearity",
    "linearity",
    "participation_ratio",
    "stable_rank",
]
