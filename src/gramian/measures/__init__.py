"""From moments to numbers: pure functions in float64."""

from gramian.measures.barycentre import bures_mean
from gramian.measures.bures import (
    bures_distance,
    frechet_distance,
    gbw_distance,
    spectral_distance,
)
from gramian.measures.cca import Cca, cca, pwcca, regression_r2, svcca
from gramian.measures.cka import cka, hsic
from gramian.measures.class_scatter import ClassScatter
from gramian.measures.classes import fisher_ratio, vci
from gramian.measures.coding_rate import RateReduction, coding_rate, rate_reduction
from gramian.measures.cosine import CosineStability, average_cosine, cosine_stability, unit_rows
from gramian.measures.effective_rank import effective_rank, participation_ratio, stable_rank
from gramian.measures.factor_cosine import (
    CosineCaution,
    ItemFactors,
    cosine_caution,
    item_factors,
)
from gramian.measures.jackknife import jackknife, jackknife_error
from gramian.measures.linearity import adjusted, held_out_linearity, linearity
from gramian.measures.magnitude import Magnitude, magnitude_weights
from gramian.measures.neural_collapse import Simplex, nc1, nc2, nc3
from gramian.measures.nuclear import matrix_entropy, matrix_nuclear_norm, nuclear_norm, rankme
from gramian.measures.procrustes_bound import ProcrustesBound, procrustes_bound
from gramian.measures.readable import readable_by_class, readable_fraction
from gramian.measures.shape import match_permutation, procrustes_distance, shape_distance
from gramian.measures.spread import (
    Spread,
    debiased_participation_ratio,
    eee,
    gaussian_kl,
    iso_score,
    mean_share,
    pc_ratio,
    spread,
)
from gramian.measures.standardised import standardised
from gramian.measures.subspace import SubspaceTest, principal_angles, subspace_test
from gramian.measures.utilised_rank import InputBasis, UtilisedRank, energy_rank, utilised_rank
from gramian.measures.vasicek import vrm

__all__ = [
    "Cca",
    "ClassScatter",
    "CosineCaution",
    "CosineStability",
    "InputBasis",
    "ItemFactors",
    "Magnitude",
    "ProcrustesBound",
    "RateReduction",
    "Simplex",
    "Spread",
    "SubspaceTest",
    "UtilisedRank",
    "adjusted",
    "average_cosine",
    "bures_distance",
    "bures_mean",
    "cca",
    "cka",
    "coding_rate",
    "cosine_caution",
    "cosine_stability",
    "debiased_participation_ratio",
    "eee",
    "effective_rank",
    "energy_rank",
    "fisher_ratio",
    "frechet_distance",
    "gaussian_kl",
    "gbw_distance",
    "held_out_linearity",
    "hsic",
    "iso_score",
    "item_factors",
    "jackknife",
    "jackknife_error",
    "linearity",
    "magnitude_weights",
    "match_permutation",
    "matrix_entropy",
    "matrix_nuclear_norm",
    "mean_share",
    "nc1",
    "nc2",
    "nc3",
    "nuclear_norm",
    "participation_ratio",
    "pc_ratio",
    "principal_angles",
    "procrustes_bound",
    "procrustes_distance",
    "pwcca",
    "rankme",
    "rate_reduction",
    "readable_by_class",
    "readable_fraction",
    "regression_r2",
    "shape_distance",
    "spectral_distance",
    "spread",
    "stable_rank",
    "standardised",
    "subspace_test",
    "svcca",
    "unit_rows",
    "utilised_rank",
    "vci",
    "vrm",
]
