"""Eigenvectors of pooled second moments, against scikit-learn and against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import TruncatedSVD

from gramian.errors import GramianError
from gramian.solvers.pooled_basis import pooled_basis


def rows(n=200, d=12, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scale = torch.linspace(3, 0.1, d, dtype=torch.float64)
    return torch.randn(n, d, generator=generator, dtype=torch.float64) * scale + 1


def second(x):
    return x.T @ x


def test_one_place_is_pca_about_zero():
    x = rows()
    found = pooled_basis([(1.0, second(x))])
    oracle = TruncatedSVD(5, algorithm="arpack", random_state=0).fit(x.numpy()).components_
    overlap = np.abs((found.rows[:5].numpy() * oracle).sum(1))
    np.testing.assert_allclose(overlap, 1, atol=1e-10)
    assert float(found.values.sum()) == pytest.approx(1.0)
    values = torch.linalg.svdvals(x).square()
    assert found.kept(5) == pytest.approx(float(values[:5].sum() / values.sum()), rel=1e-12)


def test_places_count_the_same_whatever_their_scale():
    a, b = second(rows(seed=1)), second(rows(seed=2))
    first = pooled_basis([(1.0, a), (1.0, b)])
    other = pooled_basis([(1.0, 1e8 * a), (1.0, 1e-6 * b)])
    torch.testing.assert_close(first.values, other.values, rtol=1e-9, atol=1e-12)
    stacked = torch.cat((rows(seed=1) / a.trace().sqrt(), rows(seed=2) / b.trace().sqrt()))
    torch.testing.assert_close(first.values, torch.linalg.svdvals(stacked).square())


def test_the_rows_are_orthonormal_even_without_rank():
    x = rows(4, 12)
    found = pooled_basis([(1.0, second(x)), (2.0, torch.zeros(12, 12))])
    torch.testing.assert_close(
        found.rows @ found.rows.T, torch.eye(12, dtype=torch.float64), rtol=0, atol=1e-12
    )
    assert found.kept(4) == pytest.approx(1.0)
    assert float(found.values[4:].max()) < 1e-12


def test_a_direction_apart_comes_last():
    x, ones = rows(), torch.ones(12)
    found = pooled_basis([(1.0, second(x))], apart=ones)
    assert float(found.rows[-1].abs().sum()) == pytest.approx(12**0.5)
    assert float((found.rows[:-1] @ ones.double()).abs().max()) < 1e-12
    centred = x - x.mean(1, keepdim=True)
    expected = torch.linalg.svdvals(centred).square()
    torch.testing.assert_close(found.values, expected / expected.sum(), rtol=1e-9, atol=1e-12)
    # Also where others have no energy.
    found = pooled_basis([(1.0, second(rows(3)))], apart=ones)
    assert float(found.rows[-1].abs().sum()) == pytest.approx(12**0.5)


def test_half_precision_and_a_large_mean():
    x = rows().to(torch.float16) + 1000
    found = pooled_basis([(1.0, second(x.double()).float())])
    assert found.kept(1) > 0.999


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no second moments"),
        ([(1.0, torch.zeros(3, 3))], "no second moments"),
        ([(0.0, torch.eye(3))], "no second moments"),
        ([(1.0, torch.ones(3))], "of shape"),
        ([(1.0, torch.eye(3)), (1.0, torch.eye(4))], "of shape"),
        ([(-1.0, torch.eye(3))], "a weight"),
        ([(1.0, torch.full((3, 3), torch.nan))], "NaN"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(GramianError, match=message):
        pooled_basis(given)
