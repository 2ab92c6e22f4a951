"""The spread panel in closed forms, and against SciPy, scikit-learn and enumeration."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Dense, Tag
from gramian.measures import (
    debiased_participation_ratio,
    eee,
    effective_rank,
    gaussian_kl,
    iso_score,
    matrix_entropy,
    matrix_nuclear_norm,
    mean_share,
    nuclear_norm,
    participation_ratio,
    pc_ratio,
    rankme,
    spread,
    unit_rows,
    vrm,
)
from gramian.measures.vasicek import vasicek_entropy
from gramian.moments import Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(d: int, seed: int = 9) -> Tensor:
    return torch.linalg.qr(normal(d, d, seed=seed))[0]


SPECTRUM = torch.tensor([5.0, 0.25, 3.0, 1.0, 0.5, 2.0], dtype=torch.float64)


@pytest.mark.parametrize("d", [2, 7, 64])
def test_isotropic_and_one_direction(d: int) -> None:
    flat, single = torch.full((d,), 3.0), torch.zeros(d)
    single[d // 2] = 3.0
    expected = {
        pc_ratio: (1.0, 0.0),
        eee: (0.0, (1 - 1 / d) ** 2),
        iso_score: (1.0, 0.0),
        gaussian_kl: (0.0, math.inf),
        matrix_entropy: (1.0, 0.0),
        rankme: (d, 1.0),
        nuclear_norm: (d * math.sqrt(3), math.sqrt(3)),
    }
    for measure, (isotropic, rank_one) in expected.items():
        assert measure(flat) == pytest.approx(isotropic, abs=1e-12)  # type: ignore[operator]
        assert measure(single) == pytest.approx(rank_one, abs=1e-12)  # type: ignore[operator]


def test_eee_is_the_area_between_the_curves() -> None:
    p = (SPECTRUM.sort(descending=True).values / SPECTRUM.sum()).numpy()
    d = len(p)
    grid = np.arange(1, d + 1)
    area = np.trapezoid(np.cumsum(p) - grid / d, grid)
    assert eee(SPECTRUM) == pytest.approx(area / (d / 2), rel=1e-13)
    # The Gini coefficient of the eigenvalues as half their mean absolute difference over the mean
    gini = np.abs(p[:, None] - p[None, :]).sum() / (2 * d * d * p.mean())
    assert eee(SPECTRUM) == pytest.approx(gini - (p[0] - 1 / d) / d, rel=1e-13)


def test_iso_score_is_the_distance_of_the_diagonal_of_the_principal_covariance() -> None:
    """The published steps: normalise the diagonal, distance to the ones, rescale."""
    d = len(SPECTRUM)
    diagonal = SPECTRUM.numpy() * math.sqrt(d) / np.linalg.norm(SPECTRUM.numpy())
    defect = np.linalg.norm(diagonal - 1) / math.sqrt(2 * (d - math.sqrt(d)))
    share = (d - defect**2 * (d - math.sqrt(d))) ** 2 / d**2
    assert iso_score(SPECTRUM) == pytest.approx((d * share - 1) / (d - 1), rel=1e-12)


def test_kl_is_that_of_the_normal_distributions() -> None:
    scaled = SPECTRUM.numpy() * len(SPECTRUM) / float(SPECTRUM.sum())
    a = torch.distributions.MultivariateNormal(torch.zeros(6).double(), torch.tensor(scaled).diag())
    b = torch.distributions.MultivariateNormal(torch.zeros(6).double(), torch.eye(6).double())
    assert gaussian_kl(SPECTRUM) == pytest.approx(float(torch.distributions.kl_divergence(a, b)))


def test_of_moments_as_of_their_eigenvalues_whatever_the_basis_scale_and_mean() -> None:
    x = normal(200, 6) * SPECTRUM.sqrt()
    values = torch.linalg.eigvalsh(torch.cov(x.T)).clamp_min(0)
    moved = Moments.from_rows(1e-3 * x @ rotation(6) + 1e3)
    for measure in (pc_ratio, eee, iso_score, gaussian_kl):
        assert measure(moved) == pytest.approx(measure(values), rel=1e-8)  # type: ignore[operator]
    panel = spread(moved)
    assert panel.eee == pytest.approx(eee(values), rel=1e-8)
    assert panel.effective_rank == pytest.approx(effective_rank(values), rel=1e-8)
    assert panel.matrix_entropy == pytest.approx(
        math.log(panel.effective_rank) / math.log(6), rel=1e-12
    )
    singular = torch.linalg.svdvals(x - x.mean(0))
    assert panel.nuclear_norm == pytest.approx(float(singular.sum() / singular.norm()), rel=1e-8)
    shares = singular / singular.sum()
    assert panel.rankme == pytest.approx(float((-(shares * shares.log()).sum()).exp()), rel=1e-8)
    assert panel.mean_share > 0.99


def test_debiased_squares_are_unbiased_by_enumeration() -> None:
    """All samples of 4 rows, and of 5, from a law with three values: the mean of the numerator
    is (tr S)^2 and that of the denominator tr S^2 exactly."""
    law = normal(3, 2, seed=3)
    centred = law - law.mean(0)
    covariance = centred.T @ centred / 3
    trace, squares = float(covariance.trace()), float(covariance.square().sum())
    for n in (4, 5):
        above = below = 0.0
        for sample in itertools.product(range(3), repeat=n):
            m = Moments.from_rows(law[list(sample)])
            assert m.quartic is not None
            t, pairs = m.quartic.square, (n - 1) * (n - 2)
            c = float(m.scatter.square().sum())
            low = (c + m.trace**2 / pairs - n * t / (n - 2)) / (n * (n - 3))
            high = (2 * c + (n * n - 3 * n + 1) * m.trace**2) / pairs - n * t / (n - 2)
            above, below = above + high / (n * (n - 3)), below + low
            if low > 1e-9:
                assert debiased_participation_ratio(m) == pytest.approx(
                    high / (n * (n - 3)) / low, rel=1e-9
                )
        assert above / 3**n == pytest.approx(trace**2, rel=1e-12)
        assert below / 3**n == pytest.approx(squares, rel=1e-12)


def test_debiasing_finds_the_dimensions_that_few_rows_hide() -> None:
    x = normal(64, 256)
    plain, debiased = Moments.from_rows(x), debiased_participation_ratio(Moments.from_rows(x))
    assert participation_ratio(plain) < 64
    assert debiased == pytest.approx(256, rel=0.1)
    assert iso_score(plain, debiased=True) == pytest.approx((debiased - 1) / 255, rel=1e-12)
    assert spread(plain).participation_ratio_debiased == pytest.approx(debiased, rel=1e-12)


def test_vasicek_entropy_is_that_of_scipy() -> None:
    x = torch.stack([normal(501), normal(501, seed=1).exp(), torch.linspace(0, 1, 501).double()], 1)
    expected = scipy.stats.differential_entropy(x.numpy(), method="vasicek", axis=0)
    np.testing.assert_allclose(vasicek_entropy(x).numpy(), expected, rtol=1e-12)


def test_vrm_of_normal_rows_is_zero_and_of_others_is_not() -> None:
    x = normal(100_000, 4)
    assert vrm(x) < 1e-3
    assert vrm(1e4 * x @ rotation(4) + 1e8) < 1e-3
    assert vrm(x.sign() + 1e-3 * x) > 0.5  # isotropic, and not normal
    one = torch.outer(normal(2000), normal(4, seed=5))
    # All variance in one component: (sqrt(d) - 1)^2 + (d - 1) over d
    assert vrm(one) == pytest.approx(((2 - 1) ** 2 + 3) / 4, abs=0.05)
    assert vrm(x[:500].half()) == pytest.approx(vrm(x[:500].half().double()), rel=1e-12)


def test_vrm_of_constant_and_duplicated_columns_is_finite() -> None:
    x = normal(300, 2)
    assert math.isfinite(vrm(torch.cat([x, x, torch.ones(300, 1)], 1)))


def test_matrix_measures_by_their_definition_on_rows() -> None:
    rows = normal(40, 6, seed=4) * SPECTRUM + 3
    z = rows - rows.mean(0)
    z = z / z.norm(dim=1, keepdim=True)
    m = Moments.from_rows(unit_rows(rows, centred=True))
    singular = torch.linalg.svdvals(z)
    shares = singular.square() / 40
    assert matrix_entropy(m) == pytest.approx(
        float(-(shares * shares.log()).sum()) / math.log(6), rel=1e-10
    )
    assert nuclear_norm(m) == pytest.approx(float(singular.sum()), rel=1e-10)
    columns = z.norm(dim=0).sort(descending=True).values
    assert matrix_nuclear_norm(m) == pytest.approx(float(columns.sum()) / 40, rel=1e-10)
    few = Moments.from_rows(z[:4])
    four = z[:4].norm(dim=0).sort(descending=True).values[:4]
    assert matrix_nuclear_norm(few) == pytest.approx(float(four.sum()) / 4, rel=1e-10)
    assert rankme(m) == pytest.approx(math.exp(scipy.stats.entropy(singular.numpy())), rel=1e-10)


def test_the_stand_in_bounds_the_nuclear_norm_and_turns_with_the_basis() -> None:
    rows = normal(50, 6, seed=4) * SPECTRUM
    m = Moments.from_rows(rows)
    vectors = torch.linalg.eigh(m.raw())[1]
    aligned = m.through(Dense(vectors.T.contiguous(), tags=(Tag.ORTHOGONAL,)))
    exact = nuclear_norm(m) / 50
    assert matrix_nuclear_norm(m) > exact * (1 + 1e-3)
    assert matrix_nuclear_norm(aligned) == pytest.approx(exact, rel=1e-10)
    assert nuclear_norm(aligned) == pytest.approx(nuclear_norm(m), rel=1e-10)


def test_mean_share_is_the_mean_product_over_the_mean_square() -> None:
    x = normal(30, 4) + torch.tensor([2.0, 0, -1, 0])
    gram = x @ x.T
    expected = float(gram.mean() / gram.diagonal().mean())
    assert mean_share(Moments.from_rows(x)) == pytest.approx(expected, rel=1e-12)
    assert mean_share(Moments.from_rows(x, order="diagonal")) == pytest.approx(expected, rel=1e-12)
    assert math.isnan(mean_share(Moments.from_rows(torch.zeros(3, 2))))


@pytest.mark.parametrize(
    "rows",
    [
        normal(5, 40),
        torch.ones(20, 4),
        normal(30, 1),
        torch.cat([normal(50, 3), normal(50, 3), torch.ones(50, 2)], 1),
        (normal(60, 4) + 1e4).float(),
        normal(60, 4).bfloat16(),
    ],
    ids=["d>n", "constant", "width one", "duplicated", "far mean", "bfloat16"],
)
def test_awkward_rows_give_numbers_or_none_and_valid_json(rows: Tensor) -> None:
    panel = spread(Moments.from_rows(rows))
    document = panel.to_json()
    assert set(document) == {field.name for field in fields(panel)}
    json.dumps(document, allow_nan=False)
    if rows.shape[0] <= rows.shape[1]:
        assert any("at most 4 eigenvalues" in note for note in panel.notes)
        assert panel.pc_ratio == 0.0
        assert document["gaussian_kl"] is None


def test_panel_without_quartic_and_with_weights() -> None:
    x = normal(50, 4)
    assert spread(Moments.from_rows(x, quartic=False)).participation_ratio_debiased is None
    weighted = Moments.from_rows(x, torch.rand(50))
    assert spread(weighted).participation_ratio_debiased is None
    with pytest.raises(GramianError, match="equal weight"):
        debiased_participation_ratio(weighted)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: spread(Moments.from_rows(torch.ones(3, 2), order="diagonal")), "order='full'"),
        (lambda: spread(Moments.empty(3)), "no rows"),
        (lambda: spread(Moments.from_rows(torch.eye(3)), torch.ones(2)), "width 3"),
        (lambda: debiased_participation_ratio(Moments.from_rows(torch.eye(3))), "at least 4"),
        (
            lambda: debiased_participation_ratio(Moments.from_rows(torch.eye(5), quartic=False)),
            "fourth order",
        ),
        (lambda: iso_score(torch.ones(3), debiased=True), "needs moments"),
        (lambda: vrm(normal(4, 6)), "at least 7"),
        (lambda: vrm(torch.ones(9, 2)), "do not vary"),
        (lambda: vrm(torch.tensor([[float("nan")]] * 9)), "NaN"),
        (lambda: matrix_nuclear_norm(Moments.empty(2)), "no rows"),
        (lambda: rankme(Moments.from_rows(torch.ones(3, 2), order="diagonal")), "full moments"),
        (lambda: eee(torch.tensor([-1.0, 2.0])), "below zero"),
    ],
)
def test_refusals(call: Callable[[], object], message: str) -> None:
    with pytest.raises(GramianError, match=message):
        call()
