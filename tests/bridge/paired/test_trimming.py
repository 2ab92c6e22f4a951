"""Wrong pairs are found, right ones are left alone, and doubt is said."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gramian.bridge import Bridge, partner_recall
from gramian.errors import GramianError
from tests.bridge.paired.sets import two_views, with_wrong


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["ridge", "procrustes", "auto"])
def test_a_fifth_of_wrong_pairs_is_found_and_the_fit_gains(method, seed):
    x, y = two_views(5000, 48, 64, noise=0.5, seed=seed)
    mixed, wrong = with_wrong(y[:3000], 0.2, seed)
    names = [f"doc {row}" for row in range(3000)]
    trimmed = Bridge(method, trim=True).fit(x[:3000], mixed, ids=names)
    found = trimmed.suspects_
    assert len(found) == pytest.approx(len(wrong), rel=0.15)
    assert found.share == pytest.approx(0.2, abs=0.03)
    assert np.isin(wrong, found.rows).mean() > 0.9
    assert np.isin(found.rows, wrong).mean() > 0.95
    assert found.ids == [names[row] for row in found.rows]
    plain = Bridge(method).fit(x[:3000], mixed, ids=names)
    # wrong pairs only scale the cross scatter down, which leaves a rotation much as it was
    gain = -0.01 if method == "procrustes" else 0.01
    recall = [partner_recall(b.transform(x[3000:]), y[3000:])[1] for b in (trimmed, plain)]
    assert recall[0] > recall[1] + gain
    assert trimmed.score(x[3000:], y[3000:]) > plain.score(x[3000:], y[3000:]) + gain
    assert any("seem wrong" in note for note in trimmed.evidence_.notes)
    assert trimmed.folds_["train"].count < plain.folds_["train"].count
    assert json.loads(json.dumps(found.to_json()))["suspects"] == len(found)


@pytest.mark.parametrize("n, noise", [(300, 0.3), (3000, 0.3), (3000, 0.6)])
def test_right_pairs_are_left_alone(n, noise):
    x, y = two_views(n, 48, 40, noise=noise)
    bridge = Bridge("ridge", trim=True).fit(x, y)
    assert len(bridge.suspects_) <= 0.01 * n
    assert bridge.suspects_.told


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_few_and_many_wrong_pairs(share):
    x, y = two_views(3000)
    mixed, wrong = with_wrong(y, share)
    found = Bridge("ridge", trim=True).fit(x, mixed).suspects_
    assert len(found) == pytest.approx(len(wrong), rel=0.15)
    assert found.ids == found.rows.tolist()


def test_doubt_is_said_and_nobody_is_left_out():
    x, y = two_views(2000)
    noise = np.random.default_rng(99).standard_normal(y.shape).astype(np.float32)
    equal = np.tile(y[:1], (2000, 1))
    for targets in (noise, with_wrong(y, 0.9)[0], equal):
        bridge = Bridge("ridge", trim=True).fit(x, targets)
        assert len(bridge.suspects_) == 0
        assert not bridge.suspects_.told
        assert any("cannot tell" in note for note in bridge.evidence_.notes)
    few = Bridge("ridge", trim=True).fit(x[:80], y[:80])
    assert not few.suspects_.told
    assert any("too few" in note for note in few.evidence_.notes)
    assert Bridge("ridge").fit(x, y).suspects_ is None


def test_removing_knows_who_was_never_there():
    x, y = (side.astype(np.float64) for side in two_views(2000))
    mixed, _ = with_wrong(y, 0.2)
    names = np.arange(2000)
    bridge = Bridge("ridge", lam=0.1, trim=True).fit(x, mixed, ids=names)
    kept = np.setdiff1d(names[500:], bridge.suspects_.rows)
    bridge.remove(x[:500], mixed[:500], ids=names[:500])
    never = Bridge("ridge", lam=0.1).fit(x[kept], mixed[kept], ids=kept)
    assert bridge.folds_["train"].count == never.folds_["train"].count
    assert np.allclose(bridge.transform(x), never.transform(x), atol=1e-9)


def test_trim_needs_all_pairs():
    x, y = two_views(200)
    with pytest.raises(GramianError, match="call fit with all of them"):
        Bridge(trim=True).partial_fit(x, y)
    folds = Bridge().fit(x, y).folds_
    with pytest.raises(GramianError, match="needs the pairs themselves"):
        Bridge(trim=True).fit_moments(folds["train"])
    x[7, 3] = np.nan
    with pytest.raises(GramianError, match="X: row 7 holds NaN"):
        Bridge(trim=True).fit(x, y)
