"""What is read and embedded for a judgement: samples, ids, models."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.bridge import Space
from gramian.bridge.judging.inputs import NewModel, read_rows, require_space
from gramian.bridge.texts import EmbeddedTexts, Texts
from gramian.bridge.vectors import VectorBatch
from gramian.errors import GramianError


class Held:
    """A source in memory that counts what is read."""

    address, dtype = "held", "float32"

    def __init__(self, count, dim=3, stamp=None):
        self.dim, self.count, self.stamp = dim, count, stamp or {}
        self.rows = np.arange(count * dim, dtype=np.float32).reshape(count, dim)
        self.passes = 0

    def batches(self, size=4096, start=0):
        self.passes += 1
        for first in range(start, self.count, 7):
            rows = self.rows[first : first + 7]
            ids = [f"d{first + i}" for i in range(len(rows))]
            yield VectorBatch(ids, rows, [f"text {name}" for name in ids], first)


class Lengths:
    """Embeds a text as its length."""

    name, dim, revision, unit_norm, truncated, fingerprint = "lengths", 1, None, False, 0, None

    def __init__(self):
        self.seen = []

    def __call__(self, texts, *, prefix="", progress=None):
        self.seen += [prefix + text for text in texts]
        return np.asarray([[len(prefix + text)] for text in texts], np.float32)


def test_everything_in_order():
    source = Held(20)
    rows = read_rows(source)
    np.testing.assert_array_equal(rows.vectors, source.rows)
    assert rows.ids[:2] == ("d0", "d1")
    assert rows.texts[19] == "text d19"
    assert rows.of == 20


def test_sample_keeps_what_is_asked_for_in_one_pass():
    source = Held(100)
    rows = read_rows(source, 12, ["d3", "d99", "absent"])
    assert {"d3", "d99"} <= set(rows.ids)
    assert len(rows.ids) == 12
    assert source.passes == 1
    numbers = [int(name[1:]) for name in rows.ids]
    assert numbers == sorted(numbers)
    np.testing.assert_array_equal(rows.vectors, source.rows[numbers])
    assert rows.of == 100
    assert read_rows(source, 12, ["d3", "d99"]).ids == rows.ids
    assert read_rows(source, 12, ["d3", "d99"], seed=1).ids != rows.ids


def test_sample_is_even():
    """Every row is drawn alike: 40 seeds of 10 of 50, 8 draws of each row expected."""
    counts = np.zeros(50)
    for seed in range(40):
        for name in read_rows(Held(50), 10, seed=seed).ids:
            counts[int(name[1:])] += 1
    assert counts.sum() == 400
    assert counts.max() <= 19
    assert counts.min() >= 1


def test_more_relevant_than_the_sample():
    assert read_rows(Held(30), 2, ["d1", "d2", "d3"]).ids == ("d1", "d2", "d3")
    assert len(read_rows(Held(5), 100).ids) == 5


def test_texts_are_drawn_before_they_are_embedded():
    texts = Texts([f"d{i}" for i in range(50)], ["x" * (i + 1) for i in range(50)])
    model = Lengths()
    rows = read_rows(EmbeddedTexts(texts, model, prefix="p"), 6, ["d40"])
    assert len(model.seen) == 6
    assert "d40" in rows.ids
    assert rows.vectors[list(rows.ids).index("d40"), 0] == 42
    # the same rows as from a source of vectors
    assert rows.ids == read_rows(Held(50), 6, ["d40"]).ids
    assert rows.of == 50


def test_new_model_has_the_prefix_of_documents():
    model = Lengths()
    NewModel(model, "doc: ")(["a"])
    assert model.seen == ["doc: a"]


def test_other_weights_and_widths_are_refused():
    space = Space("s", 3, fingerprint="a" * 64)
    require_space(Held(2), space, "index")
    require_space(Held(2, stamp={"fingerprint": "a" * 64, "model": "x", "prefix": "q"}), space, "i")
    with pytest.raises(GramianError, match="other weights"):
        require_space(Held(2, stamp={"fingerprint": "b" * 64}), space, "index")
    with pytest.raises(GramianError, match="4 wide"):
        require_space(Held(2, dim=4), space, "index")


def test_refusals():
    with pytest.raises(GramianError, match="a sample of 0"):
        read_rows(Held(3), 0)
    for n in (None, 4):
        with pytest.raises(GramianError, match="holds no rows"):
            read_rows(Held(0), n)
