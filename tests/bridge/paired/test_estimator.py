"""Bridges fitted on pairs: streams, deletions, choices, and input that cannot be used."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from gramian.bridge.paired import Bridge
from gramian.bridge.paired.assignment import folds_of, keys_of
from gramian.errors import GramianError
from gramian.moments import JointMoments, Shares, squared_error


def pairs(n=1500, dx=12, dy=9, noise=0.3, seed=0):
    """Sources with a mean, and targets that are a noisy linear image of them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, dx)) * np.exp(-np.arange(dx) / 6) + 0.5
    w = rng.standard_normal((dx, dy)) / np.sqrt(dx)
    return x, x @ w + 1.0 + noise * rng.standard_normal((n, dy))


def weight(bridge):
    return bridge.map_.map.to_dense(torch.float64).numpy()


def test_ridge_is_that_of_scikit_learn_on_train_and_select():
    x, y = pairs()
    bridge = Bridge("ridge", lam=0.05).fit(x, y)
    mine = folds_of(keys_of(x, None, 0), Shares()) < 2
    alpha = 0.05 * x[mine].var(0).mean() * mine.sum()
    oracle = Ridge(alpha=alpha).fit(x[mine], y[mine])
    assert np.allclose(weight(bridge), oracle.coef_, atol=1e-10)
    assert np.allclose(bridge.transform(x), oracle.predict(x), atol=1e-10)
    r2 = (
        1
        - np.square(oracle.predict(x[~mine]) - y[~mine]).sum()
        / np.square(y[~mine] - y[~mine].mean(0)).sum()
    )
    assert bridge.r2_report_ == pytest.approx(r2, abs=1e-10)
    assert bridge.score(x[~mine], y[~mine]) == pytest.approx(r2, abs=1e-10)


def test_shrunk_minimises_its_objective_and_ends_at_the_rotation():
    x, y = pairs(dy=12)
    rotation = weight(Bridge("procrustes").fit(x, y))
    assert np.allclose(rotation @ rotation.T, np.eye(12), atol=1e-10)
    bridge = Bridge("shrunk", lam=0.5, held_rows=0).fit(x, y)
    folds = bridge.folds_
    joint = folds["train"] + folds["select"]
    sxx, sxy = joint.x.scatter.numpy(), joint.cross.numpy()
    strength = 0.5 * np.trace(sxx) / 12
    prior = rotation
    if bridge.candidates_[1]["chosen"]:
        prior = weight(Bridge("scaled").fit(x, y))
    expected = np.linalg.solve(sxx + strength * np.eye(12), sxy + strength * prior.T).T
    assert np.allclose(weight(bridge), expected, atol=1e-9)
    far = Bridge("shrunk", lam=1e9, held_rows=0).fit(x, y)
    ends = [rotation, weight(Bridge("scaled").fit(x, y))]
    assert min(np.abs(weight(far) - end).max() for end in ends) < 1e-6


def test_batches_change_nothing():
    x, y = pairs()
    whole = Bridge().fit(x, y)
    parts = Bridge()
    for start in range(0, len(x), 371):
        parts.partial_fit(x[start : start + 371], y[start : start + 371])
    assert np.allclose(parts.transform(x), whole.transform(x), atol=1e-10)
    assert parts.retrieval_report_ == whole.retrieval_report_
    assert parts.candidates_[0].keys() == whole.candidates_[0].keys()
    assert [c["chosen"] for c in parts.candidates_] == [c["chosen"] for c in whole.candidates_]


@pytest.mark.parametrize("ids", [False, True])
def test_removed_pairs_were_never_there(ids):
    x, y = pairs()
    names = [f"doc {i}" for i in range(len(x))]
    some = np.arange(len(x)) % 4 == 0

    def of(rows):
        return [name for name, row in zip(names, rows, strict=True) if row] if ids else None

    removed = Bridge(target_moments="full").fit(x, y, ids=of(some | True))
    removed.remove(x[some], y[some], ids=of(some))
    never = Bridge(target_moments="full").fit(x[~some], y[~some], ids=of(~some))
    assert removed.folds_.keys() == never.folds_.keys()
    for fold, joint in never.folds_.items():
        other = removed.folds_[fold]
        assert other.count == joint.count
        for a, b in (
            (other.cross, joint.cross),
            (other.x.scatter, joint.x.scatter),
            (other.y.scatter, joint.y.scatter),
            (other.x.mean, joint.x.mean),
        ):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-9)
    assert np.allclose(removed.transform(x), never.transform(x), atol=1e-9)
    with pytest.raises(GramianError, match="some were never added"):
        removed.remove(np.tile(x, (3, 1)), np.tile(y, (3, 1)))


def test_equal_rows_share_a_fold_and_every_fold_gets_its_share():
    x = np.random.default_rng(0).standard_normal((20000, 5)).astype(np.float32)
    folds = folds_of(keys_of(x, None, 0), Shares())
    assert np.array_equal(folds, folds_of(keys_of(x.astype(np.float64), None, 0), Shares()))
    assert np.allclose(np.bincount(folds) / len(x), [0.8, 0.1, 0.1], atol=0.01)
    half = folds_of(keys_of(x.astype(np.float16), None, 0), Shares())
    assert np.allclose(np.bincount(half) / len(x), [0.8, 0.1, 0.1], atol=0.01)
    assert (folds_of(keys_of(x, None, 1), Shares()) != folds).mean() > 0.2


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "memmap", "arrow", "pandas", "polars"])
def test_every_container(kind, tmp_path):
    x, y = (rows.astype(np.float16).astype(np.float32) for rows in pairs(n=600))
    expected = Bridge("ridge", lam=0.1).fit(x, y).transform(x)
    if kind == "float16":
        a, b = x.astype(np.float16), y.astype(np.float16)
    elif kind == "bfloat16":
        a, b = torch.tensor(x).bfloat16(), torch.tensor(y).bfloat16()
        expected = (
            Bridge("ridge", lam=0.1)
            .fit(a.float().numpy(), b.float().numpy())
            .transform(a.float().numpy())
        )
    elif kind == "memmap":
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", y)
        a, b = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy")
    elif kind == "arrow":
        pa = pytest.importorskip("pyarrow")
        a, b = (pa.FixedSizeListArray.from_arrays(pa.array(r.ravel()), r.shape[1]) for r in (x, y))
    elif kind == "polars":
        pl = pytest.importorskip("polars")
        a, b = pl.Series("x", x), pl.DataFrame(y)
    else:
        pd = pytest.importorskip("pandas")
        a, b = pd.Series(list(x)), pd.Series(list(y))
    bridge = Bridge("ridge", lam=0.1).fit(a, b)
    out = bridge.transform(a)
    assert out.dtype == np.float32
    assert np.allclose(out, expected, atol=1e-4)


def test_moments_alone_choose_by_squared_error():
    x, y = pairs()
    folds = [
        JointMoments.from_rows(x[a:b], y[a:b], target="diagonal")
        for a, b in ((0, 900), (900, 1200), (1200, 1300), (1300, 1400), (1400, 1500))
    ]
    bridge = Bridge().fit_moments(folds[0], folds[1], folds[2:])
    errors = [candidate["error"] for candidate in bridge.candidates_]
    assert bridge.candidates_[int(np.argmin(errors))]["chosen"]
    assert any("chosen by squared error" in note for note in bridge.evidence_.notes)
    assert bridge.retrieval_report_ == {}
    report = JointMoments.from_rows(x[1200:], y[1200:])
    assert bridge.r2_report_ == pytest.approx(
        1 - squared_error(report, bridge.map_) / report.y.trace
    )
    assert 0 < bridge.r2_spread_ < 0.1
    with pytest.raises(GramianError, match="fitted on moments"):
        bridge.remove(x, y)


def test_the_choice_is_the_best_found_or_tied_with_it():
    x, y = pairs(dy=12, noise=1.0)
    bridge = Bridge().fit(x, y)
    table = bridge.candidates_
    chosen = [row for row in table if row["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["tied"]
    assert max(table, key=lambda row: row["score"])["tied"]
    assert chosen[0]["error"] == min(row["error"] for row in table if row["tied"])
    assert bridge.method_ == chosen[0]["method"]
    assert 0 <= bridge.retrieval_report_["recall@1"] <= bridge.retrieval_report_["recall@10"] <= 1


def test_a_rotation_is_recovered_and_undone():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((800, 16))
    y = x @ np.linalg.qr(rng.standard_normal((16, 16)))[0] + 2.0
    bridge = Bridge("procrustes").fit(x, y)
    assert bridge.retrieval_report_["recall@1"] == 1.0
    assert np.allclose(bridge.transform(x), y, atol=1e-9)
    assert np.allclose(bridge.inverse_transform(y), x, atol=1e-9)
    assert bridge.cosine_report_ == pytest.approx(1)
    unit = Bridge("procrustes", normalise=True).fit(x, y).transform(x)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_spread_of_r2_is_that_of_many_reports(seed):
    x, y = pairs(n=4000, noise=0.8, seed=seed)
    spreads, values = [], []
    for state in range(12):
        bridge = Bridge("ridge", lam=1e-3, random_state=state).fit(x, y)
        spreads.append(bridge.r2_spread_)
        values.append(bridge.r2_report_)
    assert np.std(values) == pytest.approx(np.mean(spreads), rel=0.6)


@pytest.mark.parametrize("method", ["auto", "ridge", "shrunk", "procrustes", "scaled"])
def test_awkward_sources(method):
    rng = np.random.default_rng(4)
    x, y = pairs(n=300, dx=8, dy=5)
    wide = np.concatenate([x, x[:, :3], np.ones((300, 2)), rng.standard_normal((300, 400))], axis=1)
    for rows in (wide, wide / np.linalg.norm(wide, axis=1, keepdims=True), x.astype(np.float32)):
        bridge = Bridge(method).fit(rows, y)
        assert np.isfinite(bridge.transform(rows)).all()
        assert np.isfinite(bridge.r2_report_)
    large = Bridge(method).fit((x + 1e4).astype(np.float32), y)
    assert np.isfinite(large.transform((x + 1e4).astype(np.float32))).all()
    few = Bridge(method).fit(wide[:30], y[:30])
    assert any("none were set aside" in note for note in few.evidence_.notes)
    assert np.isnan(few.r2_report_)


def test_input_that_cannot_be_used():
    x, y = pairs(n=200)
    bad = x.copy()
    bad[130, 2] = np.nan
    with pytest.raises(GramianError, match="X: row 130 holds NaN"):
        Bridge().fit(bad, y)
    with pytest.raises(GramianError, match="200 rows of X and 199 of Y"):
        Bridge().fit(x, y[:-1])
    with pytest.raises(GramianError, match="all equal"):
        Bridge().fit(np.ones((200, 4)), y)
    with pytest.raises(GramianError, match="id '3' comes twice, in rows 3 and 4"):
        Bridge().fit(x, y, ids=[0, 1, 2, 3, 3, *range(5, 200)])
    with pytest.raises(GramianError, match="row 1 has no id"):
        Bridge().fit(x, y, ids=["a", None, *range(198)])
    with pytest.raises(GramianError, match="2 ids for 200 pairs"):
        Bridge().fit(x, y, ids=["a", "b"])
    with pytest.raises(GramianError, match="method is 'best'"):
        Bridge("best").fit(x, y)
    with pytest.raises(GramianError, match="procrustes has no ridge"):
        Bridge("procrustes", lam=0.1).fit(x, y)
    streamed = Bridge().partial_fit(x, y)
    with pytest.raises(GramianError, match="row 130"):
        streamed.partial_fit(bad, y)
    assert sum(joint.count for joint in streamed.folds_.values()) == 200
    with pytest.raises(GramianError, match="Y is 3 wide, expected 9"):
        streamed.partial_fit(x, y[:, :3])
    zeros = Bridge().fit(np.concatenate([x, np.zeros((5, 12))]), np.concatenate([y, y[:5]]))
    assert np.isfinite(zeros.transform(np.zeros((1, 12)))).all()


def test_weights_and_folds_of_a_batch():
    x, y = pairs()
    heavy = np.random.default_rng(5).uniform(0.2, 3, len(x))
    bridge = Bridge("ridge", lam=0.1).partial_fit(x, y, sample_weight=heavy, fold="train")
    assert set(bridge.folds_) == {"train"}
    joint = bridge.folds_["train"]
    peer = JointMoments.from_rows(torch.tensor(x), torch.tensor(y), torch.tensor(heavy))
    np.testing.assert_allclose(joint.x.count, heavy.sum())
    np.testing.assert_allclose(joint.x.scatter, peer.x.scatter, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(joint.cross, peer.cross, rtol=1e-9, atol=1e-9)
    twice = Bridge("ridge", lam=0.1).partial_fit(x, y, sample_weight=np.full(len(x), 2.0))
    once = Bridge("ridge", lam=0.1).partial_fit(x, y)
    np.testing.assert_allclose(twice.transform(x), once.transform(x), rtol=1e-9)
    assert np.isclose(twice.r2_report_, once.r2_report_)
    for wrong in (np.ones(3), np.zeros(len(x)), np.full(len(x), np.nan)):
        with pytest.raises(GramianError, match="sample_weight"):
            once.partial_fit(x, y, sample_weight=wrong)
    with pytest.raises(GramianError, match="fold is 'test'"):
        once.partial_fit(x, y, fold="test")
