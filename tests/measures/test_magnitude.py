"""Weighting vectors where they are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import magnitude_weights


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("distance", [1e-6, 0.3, 1.0, 7.0, 100.0])
def test_two_points(distance: float) -> None:
    found = magnitude_weights(
        torch.tensor([[0.0, 0], [0, distance]], dtype=torch.float64), scale=1.0
    )
    expected = 1 / (1 + math.exp(-distance))
    torch.testing.assert_close(
        found.weights, torch.full((2,), expected, dtype=torch.float64), rtol=1e-9, atol=0
    )


def test_a_segment_is_one_plus_half_its_length_with_mass_at_the_ends() -> None:
    points = torch.linspace(0, 6, 1500, dtype=torch.float64)[:, None]
    found = magnitude_weights(points, scale=1.0)
    # Points on a line at steps h: ends 1/(1 + e^-h), inner points tanh(h/2).
    h = 6 / 1499
    assert float(found.weights[0]) == pytest.approx(1 / (1 + math.exp(-h)), rel=1e-9)
    assert float(found.weights[700]) == pytest.approx(math.tanh(h / 2), rel=1e-6)
    assert found.value == pytest.approx(1 + 6 / 2, rel=1e-5)


def test_the_weights_solve_the_system_and_span_one_to_n() -> None:
    x = normal(60, 5)
    found = magnitude_weights(x, scale=0.7)
    z = np.exp(-0.7 * np.linalg.norm(x.numpy()[:, None] - x.numpy()[None], axis=2))
    np.testing.assert_allclose(z @ found.weights.numpy(), 1.0, atol=1e-11)
    assert magnitude_weights(x, scale=1e4).value == pytest.approx(60, rel=1e-9)
    assert magnitude_weights(x, scale=1e-9).value == pytest.approx(1, rel=1e-6)


def test_default_scale_is_one_over_the_median_distance() -> None:
    x = normal(41, 3)
    found = magnitude_weights(x)
    assert found.scale == pytest.approx(1 / float(torch.pdist(x).median()), rel=1e-12)
    moved = magnitude_weights(x * 1e-3 + 1e4)
    torch.testing.assert_close(moved.weights, found.weights, rtol=1e-6, atol=1e-6)


def test_copies_share_the_weight_of_their_place() -> None:
    x = normal(20, 3)
    single = magnitude_weights(x, scale=1.0)
    copied = magnitude_weights(torch.cat([x, x[:4], x[:1]]), scale=1.0)
    assert copied.value == pytest.approx(single.value, rel=1e-12)
    torch.testing.assert_close(copied.weights[4:20], single.weights[4:])
    torch.testing.assert_close(copied.weights[1:4], single.weights[1:4] / 2)
    torch.testing.assert_close(copied.weights[[0, 20, 24]], single.weights[0].expand(3) / 3)
    assert magnitude_weights(torch.ones(5, 2)).value == pytest.approx(1.0, rel=1e-12)


def test_an_outlier_has_the_largest_weight() -> None:
    x = torch.cat([normal(200, 2), torch.tensor([[9.0, 9.0]])])
    weights = magnitude_weights(x).weights
    assert int(weights.argmax()) == 200
    coarse = x.bfloat16()
    assert int(magnitude_weights(coarse).weights.argmax()) == 200


def test_a_new_point_has_the_weight_it_would_have_inside() -> None:
    x, new = normal(50, 4) + 1e3, normal(6, 4, seed=1) + 1e3
    found = magnitude_weights(x, scale=0.5)
    expected = [magnitude_weights(torch.cat([x, p[None]]), scale=0.5).weights[-1] for p in new]
    torch.testing.assert_close(found.weight_of(new), torch.stack(expected), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.weight_of(x[:5]), found.weights[:5])
    far = found.weight_of(torch.full((1, 4), 1e6))
    assert float(far) == pytest.approx(1.0)


def test_refusals() -> None:
    nearly = torch.tensor([[0.0], [1e-17], [1.0]], dtype=torch.float64)
    for call, message in (
        (lambda: magnitude_weights(torch.ones(0, 3)), "no rows"),
        (lambda: magnitude_weights(normal(4, 2), scale=0.0), "scale"),
        (lambda: magnitude_weights(normal(4, 2), scale=math.inf), "scale"),
        (lambda: magnitude_weights(nearly, scale=1.0), "so near to each other"),
        (lambda: magnitude_weights(torch.full((3, 2), torch.nan)), "NaN"),
        (lambda: magnitude_weights(torch.arange(9000.0)[:, None]), "at most 8192"),
        (lambda: magnitude_weights(normal(4, 2)).weight_of(normal(1, 3)), "width 3"),
    ):
        with pytest.raises(GramianError, match=message):
            call()
