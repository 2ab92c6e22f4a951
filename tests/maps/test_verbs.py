"""Every verb on every kind, against the matrix written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.errors import GramianError
from gramian.maps import Affine, Chain, Dense, Identity, LinearMap, Monarch, Tag

from .zoo import (
    RECTANGULAR,
    SINGULAR,
    SQUARE,
    TOLERANCE,
    any_map,
    assert_close,
    bias_of,
    dense_of,
    invertible,
    normal,
    seeds,
    sizes,
)

few = settings(max_examples=25, deadline=None, derandomize=True)
more = settings(max_examples=150, deadline=None, derandomize=True)

EVERY = [
    *(make(3, 5) for make in (SQUARE | SINGULAR).values()),
    *(make(3, *shape) for make in RECTANGULAR.values() for shape in ((5, 3), (3, 5), (1, 1))),
]
BOTH = pytest.mark.parametrize("map", EVERY, ids=repr)


@more
@given(any_map(), st.sampled_from([(), (1,), (4,), (2, 3), (0,)]))
def test_call_equals_the_matrix(map: LinearMap, batch: tuple[int, ...]) -> None:
    x = normal(1, *batch, map.in_features)
    y = map(x)
    assert y.shape == (*batch, map.out_features)
    assert_close(y, x @ dense_of(map).T + bias_of(map))


@more
@given(any_map())
def test_transpose(map: LinearMap) -> None:
    if isinstance(map, Affine):
        with pytest.raises(GramianError, match=r"no transpose; its linear part has: map\.T"):
            map.T  # noqa: B018
        map = map.map
    assert_close(dense_of(map.T), dense_of(map).T)
    # Groups of a Monarch matrix are strided on its outputs, of its transpose on its inputs.
    assert type(map.T) is (Chain if isinstance(map, Monarch) else type(map))
    assert map.T.tags == map.tags
    assert map.T.shape == map.shape[::-1]


@more
@given(st.data(), sizes, sizes, sizes)
def test_compose(data: st.DataObject, out: int, middle: int, inn: int) -> None:
    g = data.draw(any_map(out, middle))
    f = data.draw(any_map(middle, inn))
    both = g @ f
    assert both.shape == (out, inn)
    assert_close(dense_of(both), dense_of(g) @ dense_of(f))
    assert_close(bias_of(both), dense_of(g) @ bias_of(f) + bias_of(g))
    # A bias that is carried through g becomes as wide as g's output.
    widened = max(0, both.out_features - f.out_features) if isinstance(f, Affine) else 0
    assert both.parameters <= g.parameters + f.parameters + widened
    both.check_tags(1e-8)
    h = data.draw(any_map(inn, out))
    assert_close(dense_of((h @ g) @ f), dense_of(h @ (g @ f)))


@more
@given(invertible())
def test_inverse(map: LinearMap) -> None:
    inverse = map.inverse()
    assert_close(dense_of(inverse), torch.linalg.inv(dense_of(map)))
    x = normal(2, 3, map.in_features)
    assert_close(inverse(map(x)), x)
    assert inverse.tags >= map.tags
    inverse.check_tags(1e-8)


@more
@given(any_map())
def test_pinv(map: LinearMap) -> None:
    inverse = map.pinv()
    expected = torch.linalg.pinv(dense_of(map))
    assert inverse.shape == map.shape[::-1]
    scale = max(1.0, float(expected.abs().max()))
    assert_close(dense_of(inverse) / scale, expected / scale)
    assert_close(bias_of(inverse), -expected @ bias_of(map), TOLERANCE * scale**2)
    inverse.check_tags(1e-8)


@few
@given(seeds, sizes)
def test_singular_maps_have_a_pinv_and_no_inverse(seed: int, size: int) -> None:
    for name, make in SINGULAR.items():
        map = make(seed, size)
        if name == "zeros on the diagonal" and bool((map.to_dense().diagonal() > 0).all()):
            continue
        with pytest.raises(GramianError, match=r"has no inverse.*use pinv\(\)"):
            map.inverse()
        dense = dense_of(map)
        assert_close(dense @ dense_of(map.pinv()) @ dense, dense)


@BOTH
def test_to_linear(map: LinearMap) -> None:
    linear = map.to_linear()
    x = normal(3, 4, map.in_features).to(linear.weight.dtype)
    assert_close(linear(x), map(x).to(linear.weight.dtype), 1e-6)
    assert (linear.bias is not None) == isinstance(map, Affine)
    before = map.to_dense().clone()
    with torch.no_grad():
        linear.weight.add_(1)
    assert torch.equal(map.to_dense(), before)


@BOTH
def test_scipy_operator(map: LinearMap) -> None:
    if isinstance(map, Affine):
        with pytest.raises(GramianError, match="not linear"):
            map.aslinearoperator()
        map = map.map
    operator = map.aslinearoperator()
    dense = dense_of(map).numpy()
    out, inn = operator.shape
    assert (out, inn) == map.shape
    x, y = normal(4, inn, 3).numpy(), normal(5, out, 3).numpy()
    np.testing.assert_allclose(operator @ x, dense @ x, atol=TOLERANCE)
    np.testing.assert_allclose(operator @ x[:, 0], dense @ x[:, 0], atol=TOLERANCE)
    np.testing.assert_allclose(operator.H @ y, dense.T @ y, atol=TOLERANCE)
    np.testing.assert_allclose(operator @ (x + 2j * x), dense @ (x + 2j * x), atol=TOLERANCE)
    np.testing.assert_allclose(operator @ np.ones(inn, int), dense.sum(1), atol=TOLERANCE)


@BOTH
def test_layout_of_the_input_does_not_matter(map: LinearMap) -> None:
    wide = normal(6, 4, 2 * map.in_features, 3)
    x = wide[:, ::2].transpose(1, 2)
    assert not x.is_contiguous() or map.in_features == 1
    assert_close(map(x), map(x.contiguous()))
    backwards = normal(6, 4, map.in_features).numpy()[::-1, ::-1]
    given_numpy = map(backwards)
    assert isinstance(given_numpy, torch.Tensor)
    assert_close(given_numpy, map(torch.from_numpy(backwards.copy())))


@BOTH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_computes_in_the_promoted_dtype(map: LinearMap, dtype: torch.dtype) -> None:
    x = normal(7, 4, map.in_features).to(dtype)
    y = map(x)
    assert y.dtype == (dtype if map.dtype is None else torch.float64)
    assert_close(y.double(), map(x.double()))
    narrow = map.to(dtype=dtype)
    assert narrow.dtype == (None if map.dtype is None else dtype)
    assert narrow(x).dtype == dtype
    assert narrow.to_dense(dtype).dtype == dtype
    assert narrow(x.double()).dtype == torch.float64
    assert type(narrow) is type(map)
    assert narrow.tags == map.tags
    tolerance = 20 * torch.finfo(dtype).eps
    scale = max(1.0, float(map(x.double()).abs().max()))
    assert_close(narrow(x).double() / scale, map(x.double()) / scale, tolerance)


def test_half_meets_bfloat_in_float32() -> None:
    map = Dense(normal(1, 3, 3).bfloat16())
    assert map(normal(2, 3).half()).dtype == torch.float32


@BOTH
def test_wrong_input(map: LinearMap) -> None:
    size = map.in_features
    with pytest.raises(
        GramianError, match=rf"shape \(2, {size + 1}\), expected \(\.\.\., {size}\)"
    ):
        map(torch.zeros(2, size + 1))
    with pytest.raises(GramianError, match=r"shape \(\), expected"):
        map(torch.tensor(1.0))
    for bad in (torch.zeros(size, dtype=torch.int64), torch.zeros(size, dtype=torch.bool)):
        with pytest.raises(GramianError, match=r"input has dtype .*convert it first"):
            map(bad)
    with pytest.raises(GramianError, match=r"input is a str"):
        map("text")
    with pytest.raises(GramianError, match="expected a floating point dtype"):
        map.to(dtype=torch.int32)


@BOTH
def test_repr_is_short_and_tells_the_size(map: LinearMap) -> None:
    text = repr(map)
    assert text.startswith(f"{type(map).__name__}({map.in_features} -> {map.out_features}")
    assert f"{map.parameters:,} parameters" in text
    assert len(text) < 120
    assert map.parameters == sum(t.numel() for t in map.tensors().values())


@BOTH
def test_gradients_flow_through_a_call(map: LinearMap) -> None:
    x = normal(8, 2, map.in_features).requires_grad_()
    map(x).sum().backward()
    assert x.grad is not None
    assert_close(x.grad, dense_of(map).sum(0).expand(2, -1))


def test_inverse_of_what_is_not_square() -> None:
    with pytest.raises(GramianError, match=r"is not square and has no inverse; use pinv\(\)"):
        Dense(normal(1, 3, 4)).inverse()


@pytest.mark.parametrize("rtol", [-1.0, 1.0, float("nan")])
def test_bad_rtol(rtol: float) -> None:
    with pytest.raises(GramianError, match="rtol is"):
        Dense(normal(1, 3, 3)).pinv(rtol)


@few
@given(seeds)
def test_rtol_cuts_the_same_in_every_kind(seed: int) -> None:
    values = torch.tensor([1.0, 0.5, 0.2, 0.01], dtype=torch.float64)
    left, right = (torch.linalg.qr(normal(seed + i, 4, 4)).Q for i in (0, 1))
    dense = Dense(left @ torch.diag(values) @ right)
    expected = torch.linalg.pinv(dense.weight, rtol=0.1)
    thin = dense @ Identity(4)
    factors = Chain((Dense(left), Dense(torch.diag(values) @ right)))
    assert_close(dense_of(thin.pinv(0.1)), expected)
    assert_close(dense_of(factors.pinv(0.1)), expected)


def test_orthogonal_inverse_is_the_transpose() -> None:
    wrong = Dense(normal(1, 4, 4), tags={Tag.ORTHOGONAL})  # declared, so taken at its word
    assert torch.equal(wrong.inverse().to_dense(), wrong.weight.T)
    assert torch.equal(wrong.pinv().to_dense(), wrong.weight.T)
