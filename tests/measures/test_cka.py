"""CKA and HSIC against the Gram form, known answers, and awkward input."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Dense, Permutation
from gramian.measures import cka, hsic, standardised
from gramian.moments import Accumulator, JointMoments, Pair


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(d: int, seed: int = 9) -> Tensor:
    return torch.linalg.qr(normal(d, d, seed=seed))[0]


def gram_hsic(x: Tensor, y: Tensor, *, debiased: bool) -> float:
    """The n x n form, from its definition."""
    n = len(x)
    k, l = x @ x.T, y @ y.T
    if not debiased:
        h = torch.eye(n).double() - 1.0 / n
        return float((k @ h @ l @ h).trace()) / (n - 1) ** 2
    k, l = k - k.diag().diag(), l - l.diag().diag()
    one = torch.ones(n).double()
    trace, sums = (k * l).sum(), (one @ k @ one) * (one @ l @ one)
    cross = (one @ k) @ (l @ one)
    return float(trace + sums / ((n - 1) * (n - 2)) - 2 * cross / (n - 2)) / (n * (n - 3))


def gram_cka(x: Tensor, y: Tensor, *, debiased: bool) -> float:
    xy, xx, yy = (gram_hsic(a, b, debiased=debiased) for a, b in ((x, y), (x, x), (y, y)))
    return xy / math.sqrt(xx * yy)


X = normal(300, 12) * torch.linspace(0.2, 3, 12).double() + normal(12, seed=1)
Y = (X @ normal(12, 7, seed=2)).tanh() + 0.3 * normal(300, 7, seed=3) - 2


@pytest.mark.parametrize("debiased", [True, False])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X, Y),
        (X[:5], Y[:5]),
        (X[:40], normal(40, 90, seed=4)),
        (torch.cat([X, X[:, :3], torch.ones(300, 1)], 1), Y),
        (normal(60, 4, seed=5) @ normal(4, 30, seed=6), Y[:60]),
    ],
    ids=["plain", "five rows", "d > n", "duplicated and constant", "rank 4 of 30"],
)
def test_equal_to_the_gram_form(x: Tensor, y: Tensor, debiased: bool) -> None:
    joint = JointMoments.from_rows(x, y)
    want = gram_cka(x, y, debiased=debiased)
    assert cka(joint, debiased=debiased) == pytest.approx(want, rel=1e-12, abs=1e-13)
    want = gram_hsic(x, y, debiased=debiased)
    assert hsic(joint, debiased=debiased) == pytest.approx(want, rel=1e-11)
    assert cka(joint.swap(), debiased=debiased) == pytest.approx(
        cka(joint, debiased=debiased), rel=1e-13
    )


def test_four_rows_are_enough_where_they_can_be() -> None:
    x = torch.tensor([[0.0, 0], [1, 0], [0, 1], [4, 4]]).double()
    joint = JointMoments.from_rows(x, 2 * x)
    assert cka(joint) == pytest.approx(1, abs=1e-12)
    assert hsic(joint) == pytest.approx(gram_hsic(x, 2 * x, debiased=True), rel=1e-12)


def test_a_mean_of_ten_thousand_deviations_costs_nothing() -> None:
    far = JointMoments.from_rows(X + 1e4, Y - 1e4)
    near = JointMoments.from_rows(X, Y)
    for debiased in (True, False):
        assert cka(far, debiased=debiased) == pytest.approx(cka(near, debiased=debiased), rel=1e-10)


@pytest.mark.parametrize("debiased", [True, False])
def test_one_for_rotation_scale_and_shift(debiased: bool) -> None:
    joint = JointMoments.from_rows(X, 3.7 * X @ rotation(12) + 40)
    assert cka(joint, debiased=debiased) == pytest.approx(1, abs=1e-12)
    turned = JointMoments.from_rows(X, Y).through(
        Dense(rotation(12), tags={"orthogonal"}), Permutation(torch.arange(7).flip(0))
    )
    want = cka(JointMoments.from_rows(X, Y), debiased=debiased)
    assert cka(turned, debiased=debiased) == pytest.approx(want, abs=1e-12)
    # not for maps that stretch
    stretched = JointMoments.from_rows(X, X * torch.logspace(0, 3, 12).double())
    assert cka(stretched, debiased=debiased) < 0.9


def test_independent_rows_score_nothing_once_debiased() -> None:
    """d = n = 256: plain one half, debiased zero on average with the spread sqrt(2) / n."""
    drawn = []
    for seed in range(40):
        joint = JointMoments.from_rows(
            normal(256, 256, seed=2 * seed), normal(256, 256, seed=2 * seed + 1)
        )
        drawn.append((cka(joint), cka(joint, debiased=False)))
    debiased, plain = torch.tensor(drawn).double().T
    assert abs(float(debiased.mean())) < 0.002
    assert float(debiased.std()) == pytest.approx(math.sqrt(2) / 256, rel=0.3)
    assert float(plain.mean()) == pytest.approx(0.50, abs=0.005)
    assert float(debiased.min()) < 0, "a debiased value is not clipped at zero"


def test_hsic_is_unbiased() -> None:
    """Its expectation is the squared norm of the covariance of the population."""
    mix = normal(3, 4, seed=7)
    values = {True: 0.0, False: 0.0}
    for seed in range(400):
        x = normal(12, 3, seed=seed)
        joint = JointMoments.from_rows(x, x @ mix + normal(12, 4, seed=1000 + seed))
        for debiased in values:
            values[debiased] += hsic(joint, debiased=debiased) / 400
    want = float(mix.square().sum())
    assert values[True] == pytest.approx(want, rel=0.06)
    assert values[False] > 1.3 * want


@pytest.mark.parametrize(
    ("dtype", "precision", "tolerance"),
    [
        (torch.float64, "float64", 1e-11),
        (torch.bfloat16, "float64", 1e-11),
        (torch.float16, "float32", 1e-5),
        (torch.bfloat16, "float32", 1e-5),
    ],
)
def test_batches_are_the_whole(dtype: torch.dtype, precision: str, tolerance: float) -> None:
    x, y = X.to(dtype), Y.to(dtype)
    streamed = Accumulator({"a": 12, "b": 7}, [Pair("a", "b")], precision=precision)
    for start, stop in ((0, 3), (3, 100), (100, 101), (101, 300)):
        streamed.update({"a": x[start:stop], "b": y[start:stop]})
    joint, whole = streamed.joint(Pair("a", "b")), JointMoments.from_rows(x, y)
    parts = [JointMoments.from_rows(x[i : i + 60], y[i : i + 60]) for i in range(0, 300, 60)]
    for debiased in (True, False):
        want = cka(whole, debiased=debiased)
        assert cka(joint, debiased=debiased) == pytest.approx(want, rel=tolerance)
        assert cka(sum(parts[1:], parts[0]), debiased=debiased) == pytest.approx(want, rel=1e-11)


def test_standardised_channels() -> None:
    scale = torch.logspace(-6, 6, 12).double()
    x = torch.cat([X * scale + 1e3 * scale, torch.full((300, 1), 0.1)], 1)
    joint = standardised(JointMoments.from_rows(x, Y))
    z = (X - X.mean(0)) / X.std(0, correction=0)
    want = gram_cka(z, (Y - Y.mean(0)) / Y.std(0, correction=0), debiased=False)
    assert cka(joint, debiased=False) == pytest.approx(want, rel=1e-9)
    variances = joint.x.variances / joint.count
    assert torch.allclose(variances[:12], torch.ones(12).double(), atol=1e-12)
    assert float(variances[12]) == 0
    assert float(joint.x.mean[12]) == 0
    assert not joint.cross[12].any()
    # without it, one loud channel decides
    assert cka(JointMoments.from_rows(x, x[:, 11:12]), debiased=False) > 0.999
    with pytest.raises(GramianError, match="debiased=False"):
        cka(joint)
    with pytest.raises(GramianError, match="floor"):
        standardised(joint, floor=-1)


def test_the_floor_takes_quiet_channels_for_constant() -> None:
    x = torch.stack([1 + 1e-5 * normal(50), normal(50, seed=1)], 1)
    joint = JointMoments.from_rows(x, x)
    assert bool((standardised(joint).x.variances > 0).all())
    assert float(standardised(joint, floor=1e-3).x.variances[0]) == 0


@pytest.mark.parametrize("debiased", [True, False])
@pytest.mark.parametrize("value", [0.0, 0.1, 1234.567])
def test_a_constant_side_has_no_answer(debiased: bool, value: float) -> None:
    constant = torch.full((50, 3), value)
    for x, y in ((constant, X[:50]), (X[:50], constant), (constant, constant)):
        assert math.isnan(cka(JointMoments.from_rows(x, y), debiased=debiased))


def test_too_few_rows_to_know_the_spread_have_no_answer() -> None:
    """The corners of a simplex: every pair equally far, so no sign of more than noise."""
    corners = torch.eye(5).double()
    assert math.isnan(cka(JointMoments.from_rows(corners, normal(5, 2))))


def test_weights_cancel_in_plain_and_are_refused_debiased() -> None:
    weight = torch.rand(300, generator=torch.Generator().manual_seed(0)).double()
    joints = [JointMoments.from_rows(X, Y, weight * c) for c in (1, 7)]
    one, seven = (hsic(joint, debiased=False) for joint in joints)
    assert one == pytest.approx(seven, rel=1e-12)
    twice = [JointMoments.from_rows(X, Y, 2 * torch.ones(300)), JointMoments.from_rows(X, Y)]
    assert hsic(twice[0], debiased=False) == pytest.approx(hsic(twice[1], debiased=False))
    for measure in (cka, hsic):
        with pytest.raises(GramianError, match="weights"):
            measure(joints[0])


def test_refusals() -> None:
    with pytest.raises(GramianError, match="4 rows"):
        cka(JointMoments.from_rows(X[:3], Y[:3]))
    with pytest.raises(GramianError, match="2 rows"):
        cka(JointMoments.from_rows(X[:1], Y[:1]), debiased=False)
    with pytest.raises(GramianError, match="diagonal of y"):
        cka(JointMoments.from_rows(X, Y, target="diagonal"))
    with pytest.raises(GramianError, match="fourth order"):
        cka(JointMoments.from_rows(X, Y, quartic=False))
    broken = X.clone()
    broken[2, 3] = torch.nan
    with pytest.raises(GramianError, match="row 2"):
        JointMoments.from_rows(broken, Y)
    # HSIC needs no more of y than its trace
    got = hsic(JointMoments.from_rows(X, Y, target="diagonal"))
    assert got == pytest.approx(hsic(JointMoments.from_rows(X, Y)), rel=1e-13)
