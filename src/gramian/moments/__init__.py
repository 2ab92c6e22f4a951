"""What data leaves behind: counts, means and scatters that add, and the folder they live in."""

from gramian.moments.accumulator import Accumulator, Pair
from gramian.moments.folds import FOLDS, Shares, fold_of
from gramian.moments.joint import JointMoments
from gramian.moments.merge import add_moments
from gramian.moments.moments import Moments, NonFiniteRows
from gramian.moments.momentset import MomentSet
from gramian.moments.quadratic import Quadratic, squared_error
from gramian.moments.quartic import CrossQuartic, Quartic
from gramian.moments.recipe import Partner, Recipe, RowRule
from gramian.moments.reservoir import Reservoir
from gramian.moments.sinks import SinkRows
from gramian.moments.state import load_state, save_state
from gramian.moments.writer import MomentSetWriter

__all__ = [
    "FOLDS",
    "Accumulator",
    "CrossQuartic",
    "JointMoments",
    "MomentSet",
    "MomentSetWriter",
    "Moments",
    "NonFiniteRows",
    "Pair",
    "Partner",
    "Quadratic",
    "Quartic",
    "Recipe",
    "Reservoir",
    "RowRule",
    "Shares",
    "SinkRows",
    "add_moments",
    "fold_of",
    "load_state",
    "save_state",
    "squared_error",
]
