"""The inverse of a projection head against its own conditions and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.solvers import ridge
from gramian.solvers.invert_head import invert_head

DRAW = torch.Generator().manual_seed(0)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=DRAW, dtype=torch.float64)


@pytest.mark.parametrize(("joint", "hidden"), [(8, 8), (6, 10), (10, 6)])
def test_it_is_the_pseudo_inverse(joint: int, hidden: int) -> None:
    weight = draw(joint, hidden)
    found = invert_head(weight)
    np.testing.assert_allclose(found.map.to_dense(), np.linalg.pinv(weight.numpy()), atol=1e-12)
    assert found.kept == min(joint, hidden)
    assert found.lost == max(0, hidden - joint)
    assert found.condition == pytest.approx(float(np.linalg.cond(weight.numpy())))
    reached = draw(20, hidden) @ weight.T  # in the range of the head
    np.testing.assert_allclose(found.map(reached) @ weight.T, reached, atol=1e-10)


def test_a_bias_goes_out_first_and_a_linear_layer_comes_back() -> None:
    layer = torch.nn.Linear(7, 7).double()
    found = invert_head(layer.weight.detach(), bias=layer.bias.detach())
    rows = draw(30, 7)
    np.testing.assert_allclose(found.map(layer(rows).detach()), rows, atol=1e-8)


def test_the_cut_leaves_small_directions_out() -> None:
    u, v = torch.linalg.qr(draw(6, 6))[0], torch.linalg.qr(draw(6, 6))[0]
    s = torch.tensor([4.0, 2.0, 1.0, 0.5, 1e-3, 0.0], dtype=torch.float64)
    weight = (u * s) @ v.T
    assert invert_head(weight).kept == 5
    cut = invert_head(weight, cut=0.2)
    assert cut.kept == 3
    assert cut.condition == pytest.approx(4.0)
    np.testing.assert_allclose(torch.linalg.matrix_rank(cut.map.to_dense(), atol=1e-9), 3)
    assert invert_head(weight.float()).kept == 5
    assert invert_head(weight.bfloat16()).kept <= 6


def test_ridge_knows_the_hidden_rows_and_pays_less_for_noise() -> None:
    weight = draw(12, 12) @ torch.diag(torch.logspace(0, -3, 12, dtype=torch.float64))
    basis = draw(5, 12)
    hidden = draw(400, 5) @ basis + 2.0
    joint = hidden @ weight.T + 1e-2 * draw(400, 12)
    bare = invert_head(weight).map(joint[300:])
    fitted = ridge(JointMoments.from_rows(joint[:300], hidden[:300])).map(joint[300:])
    cosine = torch.nn.functional.cosine_similarity
    assert float(cosine(fitted, hidden[300:]).min()) > 0.9
    assert float(cosine(fitted, hidden[300:]).mean()) > float(cosine(bare, hidden[300:]).mean())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cut": 1.0}, "cut is 1"),
        ({"weight": torch.zeros(3, 3)}, "all zero"),
        ({"weight": torch.zeros(3)}, r"expected \(n, d\)"),
        ({"weight": torch.full((2, 2), float("nan"))}, "NaN"),
        ({"bias": torch.zeros(4)}, "bias of 4 entries, expected 3"),
    ],
)
def test_refusals(change: dict, message: str) -> None:
    with pytest.raises(GramianError, match=message):
        invert_head(**({"weight": torch.eye(3)} | change))
