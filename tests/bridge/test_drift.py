"""Drift on vectors of real text: chance is not called drift, another domain is."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gramian as gm
from gramian.bridge.drift import IndexShards, drift
from gramian.bridge.embedders import open_embedder
from gramian.moments import Moments


@pytest.fixture(scope="module")
def sentences():
    """WordLlama vectors (n, 256) of unit length, and the document of each."""
    texts, origin = [], []
    for number, document in enumerate(gm.documents("bundled:pydocs")):
        for part in re.split(r"(?<=[.!?])\s+|\n\n+", document.text):
            text = " ".join(part.split())
            if 30 < len(text) < 400:
                texts.append(text)
                origin.append(number)
    rows = open_embedder("bundled:wordllama")(texts)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.asarray(origin)


def shards(rows, sample):
    found = IndexShards(len(rows), sample)
    found.update([f"d{i}" for i in range(len(rows))], rows)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False])
def test_false_alarms(sentences, inside):
    """Random rows, of the index or of its kind: at most one of twenty is called drifted."""
    rows = sentences[0]
    random = np.random.default_rng(0)
    order = random.permutation(len(rows))
    index, outside = order[:2000], order[2000:]
    found = shards(rows[index], 400)
    alarms, ratios = 0, []
    for _ in range(20):
        some = random.choice(index if inside else outside, 400, replace=False)
        result = drift(Moments.from_rows(rows[some], quartic=False), found.full(), found.rest)
        alarms += result.drifted
        ratios.append(result.ratio)
    assert alarms <= 1
    if not inside:
        assert 0.9 < np.mean(ratios) < 1.1


@pytest.mark.parametrize("pairs", [150, 350])
def test_another_domain(sentences, pairs):
    """Pairs from a sixth of the documents, for an index of all."""
    rows, origin = sentences
    few = np.flatnonzero(origin <= origin.max() // 6)[:pairs]
    found = shards(rows, pairs)
    result = drift(Moments.from_rows(rows[few], quartic=False), found.full(), found.rest)
    assert result.drifted
    assert result.ratio > 1.1
