"""From moments to maps: pure functions in float64 that return a map and the evidence for it."""

from gramian.solvers.completion import Completion, complete
from gramian.solvers.cur import Cur, cur
from gramian.solvers.evidence import Evidence, Solution
from gramian.solvers.filters import FILTERS, filter_factors
from gramian.solvers.minimise import minimise
from gramian.solvers.nystrom import Nystrom, leading_columns, nystrom
from gramian.solvers.procrustes import procrustes
from gramian.solvers.ridge import LAMBDAS, ridge
from gramian.solvers.shrinkage import Shrinkage, ledoit_wolf, linear_shrinkage
from gramian.solvers.spectrum import Spectrum

__all__ = [
    "FILTERS",
    "LAMBDAS",
    "Completion",
    "Cur",
    "Evidence",
    "Nystrom",
    "Shrinkage",
    "Solution",
    "Spectrum",
    "complete",
    "cur",
    "filter_factors",
    "leading_columns",
    "ledoit_wolf",
    "linear_shrinkage",
    "minimise",
    "nystrom",
    "procrustes",
    "ridge",
]
