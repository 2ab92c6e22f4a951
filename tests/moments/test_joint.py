"""Joint moments against their definition, and what only they can tell."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, Tag
from gramian.moments import JointMoments, Moments


def close(got: Tensor | float, want: Tensor | float, rtol: float = 1e-12) -> None:
    got, want = torch.as_tensor(got), torch.as_tensor(want)
    assert got.shape == want.shape
    assert float((got - want).abs().max()) <= rtol * max(float(want.abs().max()), 1e-300)


def same(got: JointMoments, want: JointMoments, rtol: float = 1e-12) -> None:
    close(got.cross, want.cross, rtol)
    for a, b in ((got.x, want.x), (got.y, want.y)):
        close(a.mean, b.mean, rtol)
        close(a.scatter, b.scatter, rtol)
    assert (got.quartic is None) == (want.quartic is None)
    if got.quartic is not None and want.quartic is not None:
        close(got.quartic.xy, want.quartic.xy, rtol)
        close(got.quartic.yx, want.quartic.yx, rtol)
        close(got.quartic.product, want.quartic.product, rtol)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def paired(n: int, dx: int, dy: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    x = normal(n, dx, seed=seed) + 2
    return x, x @ normal(dx, dy, seed=seed + 1) + normal(n, dy, seed=seed + 2) - 1


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_by_definition(weighted: bool) -> None:
    x, y = paired(30, 4, 3)
    w = torch.rand(30, generator=torch.Generator().manual_seed(1)).double()
    w = w if weighted else torch.ones(30, dtype=torch.float64)
    joint = JointMoments.from_rows(x, y, w if weighted else None)
    u, v = (a - (w @ a) / w.sum() for a in (x, y))
    rx, ry = (u * u).sum(1), (v * v).sum(1)
    close(joint.cross, torch.einsum("n,ni,nj->ij", w, u, v))
    close(joint.raw_cross(), torch.einsum("n,ni,nj->ij", w, x, y))
    assert joint.quartic is not None
    close(joint.quartic.xy, (w * rx) @ v)
    close(joint.quartic.yx, (w * ry) @ u)
    close(joint.quartic.product, float((w * rx * ry).sum()))


@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 50), max_size=4),
    dx=st.integers(1, 4),
    dy=st.integers(1, 4),
    target=st.sampled_from(["full", "diagonal"]),
)
def test_any_split_in_any_order(cuts: list[int], dx: int, dy: int, target: str) -> None:
    x, y = paired(50, dx, dy)
    whole = JointMoments.from_rows(x, y, target=target)
    edges = [0, *sorted(cuts), 50]
    parts = [
        JointMoments.from_rows(x[a:b], y[a:b], target=target) for a, b in itertools.pairwise(edges)
    ]
    same(sum(parts[1:], parts[0]), whole, 1e-11)
    same(sum(reversed(parts)), whole, 1e-11)  # type: ignore[arg-type]


def gram_hsic(x: Tensor, y: Tensor) -> float:
    """Debiased HSIC of Song et al. (2012) from the Gram matrices."""
    n = len(x)
    k, l = x @ x.T, y @ y.T
    k.fill_diagonal_(0)
    l.fill_diagonal_(0)
    value = (k * l).sum() + k.sum() * l.sum() / ((n - 1) * (n - 2))
    return float(value - 2 * (k.sum(0) @ l.sum(0)) / (n - 2)) / (n * (n - 3))


def test_debiased_hsic_after_merges() -> None:
    x, y = paired(60, 5, 4)
    parts = [JointMoments.from_rows(x[i : i + 7], y[i : i + 7]) for i in range(0, 60, 7)]
    joint = parts[3] + sum(parts[4:], parts[0]) + (parts[2] + parts[1])
    n = joint.count
    u, v = x - x.mean(0), y - y.mean(0)

    def moment_form(cross: Tensor, t: float, tx: float, ty: float) -> float:
        value = float(cross.square().sum()) - n / (n - 2) * t + tx * ty / ((n - 1) * (n - 2))
        return value / (n * (n - 3))

    assert joint.quartic is not None
    assert joint.x.quartic is not None
    got = moment_form(joint.cross, joint.quartic.product, joint.x.trace, joint.y.trace)
    assert got == pytest.approx(gram_hsic(u, v), rel=1e-12)
    own = moment_form(joint.x.scatter, joint.x.quartic.square, joint.x.trace, joint.x.trace)
    assert own == pytest.approx(gram_hsic(u, u), rel=1e-12)


def test_through_and_swap() -> None:
    x, y = paired(30, 4, 3)
    joint = JointMoments.from_rows(x, y)
    same(joint.swap(), JointMoments.from_rows(y, x))
    f, g = Affine(Dense(normal(2, 4, seed=5)), normal(2, seed=6)), Dense(normal(5, 3, seed=7))
    same(joint.through(f, g), JointMoments.from_rows(f(x), g(y), quartic=False), 1e-11)
    q = Dense(torch.linalg.qr(normal(4, 4, seed=8))[0], tags={Tag.ORTHOGONAL})
    p = Dense(torch.linalg.qr(normal(3, 3, seed=9))[0], tags={Tag.ORTHOGONAL})
    same(joint.through(q, p), JointMoments.from_rows(q(x), p(y)), 1e-11)
    with pytest.raises(GramianError, match="only the diagonal of y"):
        JointMoments.from_rows(x, y, target="diagonal").swap()


@pytest.mark.parametrize("target", ["full", "diagonal"])
def test_increments_and_back(target: str) -> None:
    x, y = paired(40, 4, 4)
    plain = JointMoments.from_rows(x, y, target=target, quartic=False)
    step = JointMoments.from_rows(x, y - x, target=target, quartic=False)
    for got, want in ((step.with_source(), plain), (plain.increment(), step)):
        close(got.cross, want.cross, 1e-12)
        close(got.y.mean, want.y.mean, 1e-12)
        close(got.y.scatter, want.y.scatter, 1e-12)
    with pytest.raises(GramianError, match="needs one width"):
        JointMoments.from_rows(x, y[:, :2]).increment()
    with pytest.raises(GramianError, match="full moments of x"):
        JointMoments.from_rows(x, y, source="diagonal", quartic=False).increment()


def test_labels_give_class_means_and_scatter() -> None:
    x = normal(30, 3)
    labels = torch.arange(30) % 4
    joint = JointMoments.from_labels(x, labels, classes=5)
    n = joint.y.mean * joint.count
    assert n.tolist() == pytest.approx([8, 8, 7, 7, 0])
    for k in range(4):
        rows = x[labels == k]
        close(joint.x.mean + joint.cross[:, k] / n[k], rows.mean(0), 1e-12)
    between = joint.cross[:, :4] / n[:4] @ joint.cross[:, :4].T
    within = sum(Moments.from_rows(x[labels == k]).scatter for k in range(4))
    close(joint.x.scatter - between, torch.as_tensor(within), 1e-12)
    with pytest.raises(GramianError, match="integers"):
        JointMoments.from_labels(x, labels.float())
    with pytest.raises(GramianError, match="expected 0 to 1"):
        JointMoments.from_labels(x, labels, classes=2)


def test_refusals() -> None:
    x, y = paired(10, 3, 2)
    with pytest.raises(GramianError, match="10 rows of x and 9 of y"):
        JointMoments.from_rows(x, y[:9])
    with pytest.raises(GramianError, match="do not add"):
        JointMoments.from_rows(x, y) + JointMoments.from_rows(x, y[:, :1])
    with pytest.raises(GramianError, match="different rows"):
        JointMoments(
            Moments.from_rows(x), Moments.from_rows(y[:5]), torch.zeros(3, 2, dtype=torch.float64)
        )
