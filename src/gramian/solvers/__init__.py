"""From moments to maps: pure functions in float64 that return a map and the evidence for it."""

from gramian.solvers.evidence import Evidence, Solution
from gramian.solvers.minimise import minimise
from gramian.solvers.procrustes import procrustes
from gramian.solvers.ridge import LAMBDAS, ridge
from gramian.solvers.spectrum import Spectrum

__all__ = [
    "LAMBDAS",
    "Evidence",
    "Solution",
    "Spectrum",
    "minimise",
    "procrustes",
    "ridge",
]
