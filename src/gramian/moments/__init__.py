"""What data leaves behind: counts, means and scatters that add, and the folder they live in."""

from gramian.moments.accumulator import Accumulator, Pair
from gramian.moments.coordinated import CoordinatedSketch
from gramian.moments.crossing import cross_estimate, paired_rows, sketch_size
from gramian.moments.folds import FOLDS, Shares, fold_of
from gramian.moments.joint import JointMoments
from gramian.moments.masked import MaskedMoments
from gramian.moments.merge import add_moments
from gramian.moments.moments import Moments, NonFiniteRows
from gramian.moments.momentset import MomentSet
from gramian.moments.quadratic import Quadratic, squared_error
from gramian.moments.quartic import CrossQuartic, Quartic
from gramian.moments.recipe import Partner, Recipe, RowRule
from gramian.moments.reservoir import Reservoir
from gramian.moments.robust import RobustPilot, robust_weights
from gramian.moments.shards import HeldShards, Shard
from gramian.moments.sinks import SinkRows
from gramian.moments.sketched import SketchedMoments
from gramian.moments.sketchfile import load_sketch, save_sketch
from gramian.moments.state import load_state, save_state
from gramian.moments.writer import MomentSetWriter

__all__ = [
    "FOLDS",
    "Accumulator",
    "CoordinatedSketch",
    "CrossQuartic",
    "HeldShards",
    "JointMoments",
    "MaskedMoments",
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
    "RobustPilot",
    "RowRule",
    "Shard",
    "Shares",
    "SinkRows",
    "SketchedMoments",
    "add_moments",
    "cross_estimate",
    "fold_of",
    "load_sketch",
    "load_state",
    "paired_rows",
    "robust_weights",
    "save_sketch",
    "save_state",
    "sketch_size",
    "squared_error",
]
