"""From moments to maps: pure functions in float64 that return a map and the evidence for it."""

from gramian.solvers.binding import binding
from gramian.solvers.blast import blast
from gramian.solvers.blocks_plus_low_rank import blocks_plus_low_rank
from gramian.solvers.canonical import canonical, canonical_coordinates
from gramian.solvers.compatible import CompatibleHead, backward_map, compatible_head
from gramian.solvers.completion import Completion, complete
from gramian.solvers.cosine_map import BranchRows, Directed, cosine_map
from gramian.solvers.cur import Cur, cur
from gramian.solvers.deflated_discriminant import Deflated, deflated_discriminant
from gramian.solvers.diagonal_gain import diagonal_gain
from gramian.solvers.discriminant import Directions, discriminant, discriminant_within
from gramian.solvers.ease import ItemWeights, ease
from gramian.solvers.eliminate import eliminate
from gramian.solvers.evidence import Evidence, Solution
from gramian.solvers.filters import FILTERS, filter_factors
from gramian.solvers.generalised_procrustes import CommonSpace, generalised_procrustes
from gramian.solvers.invert_head import InvertedHead, invert_head
from gramian.solvers.leverage import ridge_leverage
from gramian.solvers.minimise import minimise
from gramian.solvers.monarch import monarch, monarch_projection
from gramian.solvers.nystrom import Nystrom, leading_columns, nystrom
from gramian.solvers.optimal_transport import optimal_transport
from gramian.solvers.pair_invariant import pair_invariant
from gramian.solvers.procrustes import procrustes
from gramian.solvers.quadratic_ridge import STRENGTHS, Shrunk, quadratic_ridge
from gramian.solvers.reconstruct import Reconstruction, reconstruct
from gramian.solvers.reduced_rank import reduced_rank
from gramian.solvers.relaxed_orthogonal import relaxed_orthogonal
from gramian.solvers.ridge import LAMBDAS, ridge
from gramian.solvers.shrinkage import Shrinkage, ledoit_wolf, linear_shrinkage
from gramian.solvers.spectrum import Spectrum
from gramian.solvers.structured import Structured
from gramian.solvers.truncate import Truncation, truncate, truncation
from gramian.solvers.truncate_drifted import truncation_drifted
from gramian.solvers.truncated_error import truncated_errors
from gramian.solvers.unshrink import unshrink
from gramian.solvers.whitening import colouring, whitening

__all__ = [
    "FILTERS",
    "LAMBDAS",
    "STRENGTHS",
    "BranchRows",
    "CommonSpace",
    "CompatibleHead",
    "Completion",
    "Cur",
    "Deflated",
    "Directed",
    "Directions",
    "Evidence",
    "InvertedHead",
    "ItemWeights",
    "Nystrom",
    "Reconstruction",
    "Shrinkage",
    "Shrunk",
    "Solution",
    "Spectrum",
    "Structured",
    "Truncation",
    "backward_map",
    "binding",
    "blast",
    "blocks_plus_low_rank",
    "canonical",
    "canonical_coordinates",
    "colouring",
    "compatible_head",
    "complete",
    "cosine_map",
    "cur",
    "deflated_discriminant",
    "diagonal_gain",
    "discriminant",
    "discriminant_within",
    "ease",
    "eliminate",
    "filter_factors",
    "generalised_procrustes",
    "invert_head",
    "leading_columns",
    "ledoit_wolf",
    "linear_shrinkage",
    "minimise",
    "monarch",
    "monarch_projection",
    "nystrom",
    "optimal_transport",
    "pair_invariant",
    "procrustes",
    "quadratic_ridge",
    "reconstruct",
    "reduced_rank",
    "relaxed_orthogonal",
    "ridge",
    "ridge_leverage",
    "truncate",
    "truncated_errors",
    "truncation",
    "truncation_drifted",
    "unshrink",
    "whitening",
]
