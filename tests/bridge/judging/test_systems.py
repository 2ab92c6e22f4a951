"""The whole comparison: verdicts on data whose right answer is known, and every refusal."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gramian.bridge import SavedBridge, Space
from gramian.bridge.judging import SYSTEMS, judge
from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.moments import JointMoments
from tests.bridge.judging.worlds import world

# a rotation between two equally good models; old queries blurred; old index blurred; old index lost
WORLDS = {
    "keep_old": {},
    "bridge": {"old_query_noise": 0.9},
    "two_stage": {"old_item_noise": 0.6},
    "reindex": {"old_item_noise": 3.0},
}


@pytest.mark.parametrize("verdict", WORLDS)
def test_verdict_with_judgements(verdict):
    found = judge(**world(**WORLDS[verdict]).judged())
    assert found.verdict == verdict, found.reason
    assert found.measure == "ndcg"
    assert "nDCG@10" in found.reason


@pytest.mark.parametrize("verdict", WORLDS)
def test_verdict_without_judgements(verdict):
    found = judge(**world(**WORLDS[verdict]).unjudged(candidates=150))
    assert found.verdict == verdict, found.reason
    assert found.measure == "overlap"
    assert found.systems["bridge"].ndcg is None
    assert found.systems["reindex"].overlap.value == 1.0
    assert any("not whether the new model is better" in warning for warning in found.warnings)


def test_a_new_model_that_is_worse_is_refused():
    found = judge(**world(new_item_noise=2.0, noise=0.2).judged(embed=None))
    assert found.verdict == "keep_old"
    assert found.decision.gains["reindex"].high < 0


def test_figures_and_json():
    setting = world(queries=40, items=300, old_query_noise=0.5)
    found = judge(**setting.judged(csls=5))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert {"k", "verdict", "reason", *SYSTEMS} <= set(document)
    for name in SYSTEMS:
        assert set(document[name]) == {"recall", "ndcg", "mrr", "overlap"}
        for interval in document[name].values():
            assert 0 <= interval["low"] <= interval["value"] <= interval["high"] <= 1
    assert document["csls"]["overlap"]["value"] > 0
    assert set(document["hubness"]) == {*SYSTEMS, "csls"}
    assert document["score_shift"]["ks"] > 0
    assert document["queries"] == 40
    # the map is exact and the index a rotation: the bridge finds what re-embedding finds
    assert document["bridge"] == document["reindex"]
    assert document["two_stage"] == document["reindex"]
    assert document["swap"]["recall"]["value"] < 0.2


def test_one_seed_one_result():
    setting = world(queries=30, items=200, old_item_noise=0.5)
    first, second = (judge(**setting.judged()).to_json() for _ in range(2))
    assert first == second
    assert judge(**setting.judged(seed=1)).to_json()["old"] != first["old"]


def test_swap_is_null_where_widths_differ():
    found = judge(**world(new=24, old=16).judged())
    assert found.systems["swap"] is None
    assert found.to_json()["swap"] is None


def test_few_queries_cannot_tell():
    found = judge(**world(queries=5, items=200, old_item_noise=3.0).judged())
    assert found.verdict == "keep_old"
    assert "5 queries cannot tell" in found.reason
    single = judge(**world(queries=1, items=200, old_item_noise=3.0).judged())
    assert single.verdict == "keep_old"
    assert single.to_json()["old"]["ndcg"] == {
        "value": single.systems["old"].ndcg.value,
        "low": None,
        "high": None,
    }


def test_ties_keep_the_old_model():
    setting = world(queries=30, items=100)
    same = {**setting.arguments, "old_index": np.ones((100, 24)), "new_index": np.ones((100, 24))}
    found = judge(**same, qrels=setting.qrels)
    assert found.verdict == "keep_old"
    assert found.decision.gains["reindex"].value == 0
    assert found.systems["old"].recall == found.systems["bridge"].recall


def test_sample_restricts_every_system():
    setting = world(items=600)
    chosen = np.sort(np.random.default_rng(3).choice(600, 150, replace=False))
    sampled = judge(
        **setting.judged(new_index=setting.arguments["new_index"][chosen], sample=chosen)
    )
    ids = [setting.arguments["item_ids"][i] for i in chosen]
    by_hand = judge(
        **setting.judged(
            old_index=setting.arguments["old_index"][chosen],
            new_index=setting.arguments["new_index"][chosen],
            item_ids=ids,
        )
    )
    assert sampled.to_json()["old"] == by_hand.to_json()["old"]
    assert sampled.to_json()["two_stage"] == by_hand.to_json()["two_stage"]
    assert (sampled.items, sampled.corpus) == (150, 600)
    assert any("sample of 150 of 600" in warning for warning in sampled.warnings)
    assert any("were left out" in warning for warning in sampled.warnings)


def test_second_stage_from_an_embedder_alone():
    setting = world(items=400, old_item_noise=0.6)
    new = setting.arguments["new_index"]
    asked = []

    def embed(positions):
        asked.append(positions)
        return new[positions]

    alone = judge(**setting.judged(new_index=None, embed=embed))
    whole = judge(**setting.judged())
    assert alone.systems["reindex"] is None
    assert alone.systems["two_stage"].ndcg == whole.systems["two_stage"].ndcg
    assert len(asked) == 1
    assert len(np.unique(asked[0])) == len(asked[0])
    assert alone.verdict == "two_stage"


def test_bridge_from_old_to_new():
    setting = world(new=24, old=24, old_query_noise=0.9)
    a = setting.arguments["bridge"](np.eye(24))
    back = judge(**setting.judged(bridge=lambda rows: rows @ a.T, direction="old_to_new"))
    forth = judge(**setting.judged())
    assert back.systems["bridge"].ndcg == forth.systems["bridge"].ndcg
    assert back.verdict == "bridge"


def test_without_the_old_model():
    found = judge(**world(old_item_noise=1.0).judged(old_queries=None, candidates=150))
    assert found.systems["old"] is None
    assert found.shift is None
    assert found.verdict == "two_stage"
    assert any("no queries of the old model" in warning for warning in found.warnings)


def test_half_precision_and_torch():
    setting = world(queries=40, items=200)
    half = {
        name: torch.from_numpy(setting.arguments[name]).to(torch.float16)
        for name in ("new_queries", "old_queries", "old_index", "new_index")
    }
    one, two = judge(**setting.judged(**half)), judge(**setting.judged())
    assert one.systems["old"].ndcg.value == pytest.approx(two.systems["old"].ndcg.value, abs=0.02)


def test_few_items_flatter_two_stages():
    found = judge(**world(queries=30, items=60).judged())
    assert any("flatter two stages" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"k": 0}, "k is 0"),
        ({"k": 61}, "1 to 60"),
        ({"candidates": 5}, "at least k = 10"),
        ({"metric": "jaccard"}, "metric is 'jaccard'"),
        ({"direction": "back"}, "direction is 'back'"),
        ({"bootstrap": 0}, "at least 1 resample"),
        ({"margin": -1.0}, "margin is -1"),
        ({"retain": 1.5}, "retain 1.5"),
        ({"csls": 99}, "99 neighbours of 30"),
        ({"csls": 5, "metric": "dot"}, "defined for the cosine"),
        ({"old_queries": np.ones((29, 24))}, "29 old and 30 new queries"),
        ({"old_queries": np.ones((30, 23))}, "23 wide, expected 24"),
        ({"new_index": np.ones((59, 24))}, "pass sample"),
        ({"new_index": np.ones((60, 23))}, "23 wide, expected 24"),
        ({"sample": [0, 0]}, "expected 60 whole numbers"),
        ({"sample": [0] * 60}, "a position twice"),
        ({"sample": range(1, 61)}, "outside 0 to 59"),
        ({"new_index": None, "sample": [1]}, "pass new_index as well"),
        ({"query_ids": ["a"] * 30}, "id 'a' comes twice"),
        ({"corpus": 59}, "a corpus of 59 items, and 60 in its index"),
        ({"item_ids": ["a"]}, "1 ids of 60 items"),
        ({"qrels": {"zzz": {"d1": 1}}}, "none of 30 queries has a relevant item"),
        ({"qrels": {"q1": {"elsewhere": 1}}}, "none of 30 queries"),
        ({"qrels": None, "new_index": None}, "neither judgements nor vectors"),
        ({"bridge": lambda rows: np.asarray(rows)[:, :5]}, "other models, or to the other"),
        ({"new_queries": np.ones((0, 24)), "old_queries": None}, "0 queries"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(GramianError, match=message):
        judge(**world(queries=30, items=60).judged(**changes))


@pytest.mark.parametrize("side", ["new_queries", "old_queries", "old_index", "new_index"])
def test_nan_is_named(side):
    setting = world(queries=30, items=60)
    bad = setting.arguments[side].copy()
    bad[7, 3] = np.nan
    with pytest.raises(GramianError, match="row 7 holds NaN"):
        judge(**setting.judged(**{side: bad}))


class TestSavedBridge:
    """A bridge that knows what it was fitted on refuses everything else."""

    @pytest.fixture
    def pair(self):
        random = np.random.default_rng(5)
        scales = np.linspace(3, 0.1, 16)
        new = random.standard_normal((400, 16)) * scales + 1
        old = (new @ np.linalg.qr(random.standard_normal((16, 16)))[0]) * 2 - 5
        w = np.linalg.lstsq(new - new.mean(0), old - old.mean(0), rcond=None)[0]
        saved = SavedBridge(
            Dense(torch.from_numpy(w.T.copy())),
            Space("new", 16),
            Space("old", 16),
            "query_to_old",
            "ridge",
            400,
            folds={"train": JointMoments.from_rows(torch.tensor(new), torch.tensor(old))},
        )
        return saved, new, old

    def test_judges_its_own(self, pair):
        saved, new, old = pair
        found = judge(saved, new_queries=new[:50], old_index=old, new_index=new)
        assert found.direction == "query_to_old"

    def test_refuses_the_wrong_direction(self, pair):
        saved, new, old = pair
        with pytest.raises(GramianError, match="wrong way round"):
            judge(saved, new_queries=old[:50], old_index=new, new_index=old)

    def test_refuses_another_model(self, pair):
        saved, new, old = pair
        turned = new @ np.linalg.qr(np.random.default_rng(9).standard_normal((16, 16)))[0]
        with pytest.raises(GramianError, match="do not look like new"):
            judge(saved, new_queries=turned[:50], old_index=old, new_index=turned)
        judge(saved, new_queries=turned[:50], old_index=old, new_index=turned, check=False)

    def test_refuses_another_width(self, pair):
        saved, _, old = pair
        with pytest.raises(GramianError, match="bridge of the other direction"):
            judge(saved, new_queries=np.ones((3, 8)), old_index=old, new_index=np.ones((400, 8)))
