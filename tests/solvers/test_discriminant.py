"""Discriminant directions against scikit-learn and their defining equations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.solvers import Directions, discriminant, discriminant_within


def rows(n: int, d: int, classes: int, seed: int = 0, mean: float = 0.0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    centres = torch.randn(classes, d, generator=g, dtype=torch.float64)
    mix = torch.randn(d, d, generator=g, dtype=torch.float64)
    x = torch.randn(n, d, generator=g, dtype=torch.float64) @ mix + 2 * centres[labels]
    return x + mean, labels


def solved(x: Tensor, labels: Tensor, **options: object) -> Directions:
    names = labels.unique()
    counts = torch.stack([(labels == k).sum() for k in names]).double()
    means = torch.stack([x[labels == k].mean(0) for k in names])
    return discriminant(Moments.from_rows(x), counts, means, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_spans_what_scikit_learn_spans(mean: float) -> None:
    x, labels = rows(400, 12, 5, mean=mean)
    found = solved(x, labels)
    model = LinearDiscriminantAnalysis(solver="eigen").fit(x.numpy(), labels.numpy())
    angles = scipy.linalg.subspace_angles(found.projection.numpy(), model.scalings_[:, :4])
    assert found.projection.shape == (12, 4)
    assert angles.max() < 1e-5


@pytest.mark.parametrize("shrinkage", [None, 0.3, "ledoit_wolf"])
def test_scatter_within_becomes_the_identity(shrinkage: float | str | None) -> None:
    found = solved(*rows(400, 12, 5), shrinkage=shrinkage)
    p = found.projection
    torch.testing.assert_close(
        p.T @ found.denominator @ p, torch.eye(4, dtype=torch.float64), atol=1e-10, rtol=0
    )
    assert bool((found.values.diff() <= 0).all())


def test_more_dimensions_than_rows() -> None:
    x, labels = rows(30, 80, 3)
    for shrinkage in (None, 0.1, "ledoit_wolf"):
        found = solved(x, labels, shrinkage=shrinkage)
        assert found.projection.shape[1] <= 2
        assert bool(torch.isfinite(found.projection).all())
    z = solved(x, labels, shrinkage=0.1).map(x)
    centres = torch.stack([z[labels == k].mean(0) for k in range(3)])
    assert bool((torch.cdist(z, centres).argmin(1) == labels).all())


def test_constant_and_repeated_columns_change_nothing() -> None:
    x, labels = rows(300, 6, 3)
    more = torch.cat([x, x[:, :2], torch.full((300, 1), 7.0, dtype=torch.float64)], 1)
    plain, wide = solved(x, labels), solved(more, labels)
    torch.testing.assert_close(wide.values, plain.values)


def test_ledoit_wolf_is_that_of_the_centred_rows() -> None:
    from sklearn.covariance import ledoit_wolf

    x, labels = rows(60, 12, 3)
    means = torch.stack([x[labels == k].mean(0) for k in range(3)])
    within = Moments.from_rows(x - means[labels])
    found = discriminant_within(within, torch.full((3,), 20.0), means, shrinkage="ledoit_wolf")
    wanted = ledoit_wolf((x - means[labels]).numpy(), assume_centered=True)[0]
    np.testing.assert_allclose(found.denominator.numpy(), wanted, atol=1e-10)


def test_refusals() -> None:
    x, labels = rows(60, 5, 3)
    with pytest.raises(GramianError, match="0 to 1"):
        solved(x, labels, shrinkage=2.0)
    with pytest.raises(GramianError, match="'ledoit_wolf'"):
        solved(x, labels, shrinkage="oas")
    with pytest.raises(GramianError, match="1 to 2"):
        solved(x, labels, components=3)
    with pytest.raises(GramianError, match="two classes"):
        solved(x, torch.zeros(60, dtype=torch.long))
    with pytest.raises(GramianError, match="different rows"):
        discriminant(Moments.from_rows(x), torch.tensor([30.0, 30.0]), torch.eye(2, 5) * 1e3)
    with pytest.raises(GramianError, match="apart"):
        solved(x.new_tensor(np.tile(x[:20].numpy(), (3, 1))), torch.arange(60) // 20)
