"""How well a model predicts, how close it is to its base, how large and how fast it is."""

from gramian.evaluate.comparison import Comparison, compare
from gramian.evaluate.perplexity import Perplexity, perplexity
from gramian.evaluate.reading import Reading, read
from gramian.evaluate.size import Size, size
from gramian.evaluate.windows import check_causal

__all__ = [
    "Comparison",
    "Perplexity",
    "Reading",
    "Size",
    "check_causal",
    "compare",
    "perplexity",
    "read",
    "size",
]
