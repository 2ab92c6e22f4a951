"""Better vectors from one model: whitened, narrower, or told apart by what matters."""

from gramian.bridge.sharpen.binding import BindingTrial, BoundCaptions, bind_attributes
from gramian.bridge.sharpen.exporting import export_sharpened
from gramian.bridge.sharpen.inversion import PromptInverse, prompt_inverse, prompt_states
from gramian.bridge.sharpen.reduction import Reduction, WidthCost, reduce_width
from gramian.bridge.sharpen.tables import WhitenedTable, token_counts, whiten_table
from gramian.bridge.sharpen.vectors import whiten_vectors

__all__ = [
    "BindingTrial",
    "BoundCaptions",
    "PromptInverse",
    "Reduction",
    "WhitenedTable",
    "WidthCost",
    "bind_attributes",
    "export_sharpened",
    "prompt_inverse",
    "prompt_states",
    "reduce_width",
    "token_counts",
    "whiten_table",
    "whiten_vectors",
]
