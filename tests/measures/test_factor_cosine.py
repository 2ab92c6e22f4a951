"""Factor models of items: their optimality, and what their cosines are worth."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gramian.errors import GramianError
from gramian.measures.factor_cosine import cosine_caution, item_factors
from gramian.moments import Moments

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(80, 12, generator=DRAW, dtype=torch.float64) @ torch.diag(
    torch.logspace(0.5, -0.5, 12, dtype=torch.float64)
)
X = X @ torch.linalg.qr(torch.randn(12, 12, generator=DRAW, dtype=torch.float64))[0] + 0.3
MOMENTS = Moments.from_rows(X)


def loss(a: torch.Tensor, b: torch.Tensor, penalty: str, strength: float) -> torch.Tensor:
    error = (X - X @ a @ b.T).square().sum()
    if penalty == "product":
        return error + strength * (a @ b.T).square().sum()
    return error + strength * ((X @ a).square().sum() + b.square().sum())


@pytest.mark.parametrize(("penalty", "strength"), [("product", 5.0), ("separate", 4.0)])
@pytest.mark.parametrize("rank", [3, 12])
def test_the_closed_form_is_the_minimum(penalty: str, strength: float, rank: int) -> None:
    model = item_factors(MOMENTS, rank, penalty=penalty, strength=strength)
    a, b = model.a.clone().requires_grad_(), model.b.clone().requires_grad_()
    least = loss(a, b, penalty, strength)
    least.backward()
    assert float(a.grad.abs().max()) < 1e-8
    assert float(b.grad.abs().max()) < 1e-8
    for seed in range(3):
        torch.manual_seed(seed)
        sides = [torch.randn(12, rank, dtype=torch.float64).mul_(0.3) for _ in range(2)]
        sides = [side.requires_grad_() for side in sides]
        search = torch.optim.LBFGS(sides, max_iter=500, line_search_fn="strong_wolfe")

        def closure(sides=sides, search=search) -> torch.Tensor:
            search.zero_grad()
            value = loss(*sides, penalty, strength)
            value.backward()
            return value

        search.step(closure)
        assert float(loss(*sides, penalty, strength).detach()) >= float(least.detach()) * (1 - 1e-9)


def test_the_product_at_full_rank_is_ridge_on_itself() -> None:
    gram = X.T @ X
    want = torch.linalg.solve(gram + 5.0 * torch.eye(12, dtype=torch.float64), gram)
    found = item_factors(MOMENTS, 12, strength=5.0).predictor
    np.testing.assert_allclose(found, want, atol=1e-12)


def test_scales_predict_the_same_and_have_other_cosines() -> None:
    model = item_factors(MOMENTS, 5, strength=2.0)
    other = model.rescaled(torch.logspace(-2, 2, 5))
    np.testing.assert_allclose(other.predictor, model.predictor, atol=1e-12)
    assert float((other.item_cosine() - model.item_cosine()).abs().max()) > 0.3
    same = other.data_cosine(MOMENTS)
    np.testing.assert_allclose(same, model.data_cosine(MOMENTS), atol=1e-12)
    predicted = (X @ model.predictor).numpy()
    unit = predicted / np.linalg.norm(predicted, axis=0)
    np.testing.assert_allclose(same, unit.T @ unit, atol=1e-12)


def test_at_full_rank_plain_cosines_say_nothing() -> None:
    plain = item_factors(MOMENTS, 12)
    np.testing.assert_allclose(plain.item_cosine(), np.eye(12), atol=1e-14)
    found = cosine_caution(MOMENTS, 12)
    assert found.largest_plain < 1e-14
    assert found.pairs == 66
    # and the cosine of factors scaled by s is that of the data
    assert found.scaled_data == pytest.approx(1.0)
    assert cosine_caution(MOMENTS, 4).plain_scaled < 0.95


def test_items_that_never_vary_are_left_out_and_rounding_is_no_factor() -> None:
    rows = torch.cat([X[:, :5], X[:, :2], torch.zeros(80, 2, dtype=torch.float64)], 1)
    moments = Moments.from_rows(rows)
    found = cosine_caution(moments, 9, strength=1.0)
    assert found.items == 7
    model = item_factors(moments, 9, penalty="separate", strength=0.5)
    assert bool(torch.isfinite(model.a).all())
    assert float(model.b[7:].abs().max()) < 1e-12
    assert int((model.b.norm(dim=0) > 0).sum()) == 5
    few = Moments.from_rows(X[:3])  # fewer rows than items
    assert int((item_factors(few, 12).b.norm(dim=0) > 0).sum()) == 3


def test_refusals() -> None:
    with pytest.raises(GramianError, match="rank is 13"):
        item_factors(MOMENTS, 13)
    with pytest.raises(GramianError, match="penalty is"):
        item_factors(MOMENTS, 3, penalty="none")
    with pytest.raises(GramianError, match="strength is -1"):
        item_factors(MOMENTS, 3, strength=-1.0)
    with pytest.raises(GramianError, match="full moments"):
        item_factors(MOMENTS.diagonal(), 3)
    with pytest.raises(GramianError, match="at least one row"):
        item_factors(Moments.empty(3), 1)
    with pytest.raises(GramianError, match="other than zero"):
        item_factors(MOMENTS, 2).rescaled(torch.tensor([1.0, 0.0]))
    with pytest.raises(GramianError, match="expected full moments of 12"):
        item_factors(MOMENTS, 2).data_cosine(Moments.from_rows(X[:, :3]))
    with pytest.raises(GramianError, match="at least 3"):
        cosine_caution(Moments.from_rows(X[:, :2]), 1)
