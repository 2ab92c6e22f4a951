"""How well a model predicts, how close it is to its base, how large and how fast it is."""

from gramian.evaluate.comparison import Comparison, compare
from gramian.evaluate.perplexity import Perplexity, perplexity
from gramian.evaluate.size import Size, size

__all__ = ["Comparison", "Perplexity", "Size", "compare", "perplexity", "size"]
