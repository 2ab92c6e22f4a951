"""Pairs by id, texts with ids, samples, and whether pairs look like their index."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gramian.bridge.drift import IndexShards, drift
from gramian.bridge.pairing import Pairs
from gramian.bridge.sample import sample
from gramian.bridge.texts import EmbeddedTexts, Texts
from gramian.bridge.vectors import open_vectors
from gramian.errors import GramianError
from gramian.moments import Moments


def rows(n: int, d: int = 5, seed: int = 0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def lines(path, ids, vectors, texts=None):
    records = [{"id": id, "vector": v.tolist()} for id, v in zip(ids, vectors, strict=True)]
    if texts:
        records = [{**r, "text": t} for r, t in zip(records, texts, strict=True)]
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return open_vectors(str(path))


def arrays(path, vectors, ids=None):
    np.save(path, vectors)
    if ids:
        path.with_suffix(".ids.txt").write_text("\n".join(ids) + "\n")
    return open_vectors(str(path))


class Lengths:
    """A model whose vectors are the lengths of texts."""

    name, dim, revision, fingerprint, unit_norm, truncated = "lengths", 1, None, None, False, 0
    seen = 0

    def __call__(self, texts, *, prefix="", progress=None):
        self.seen += len(texts)
        return np.asarray([[len(prefix + text)] for text in texts], np.float32)


class TestPairs:
    def test_row_numbers(self, tmp_path):
        a, b = arrays(tmp_path / "a.npy", rows(30)), arrays(tmp_path / "b.npy", rows(30, 3, 1))
        pairs = Pairs.of(a, b)
        assert (pairs.count, pairs.dropped, pairs.aligned) == (30, (0, 0), True)
        ids, x, y = pairs.read()
        assert ids[7] == "7"
        np.testing.assert_array_equal(x, rows(30))
        np.testing.assert_array_equal(y, rows(30, 3, 1))
        with pytest.raises(GramianError, match=r"30 rows .* 29"):
            Pairs.of(a, arrays(tmp_path / "c.npy", rows(29)))

    def test_other_order_and_missing_partners(self, tmp_path):
        ids = [f"d{i}" for i in range(40)]
        x, y = rows(40), rows(40, 3, 1)
        order = np.random.default_rng(2).permutation(40)[:35]
        a = arrays(tmp_path / "a.npy", x[:38], ids[:38])
        b = lines(tmp_path / "b.jsonl", [ids[i] for i in order], y[order])
        pairs = Pairs.of(a, b)
        found, left, right = pairs.read()
        assert set(found) == {ids[i] for i in order if i < 38}
        assert pairs.count == len(found)
        assert pairs.dropped == (38 - len(found), 35 - len(found))
        places = [int(id[1:]) for id in found]
        np.testing.assert_array_equal(left, x[places])
        np.testing.assert_allclose(right, y[places], rtol=1e-6)

    def test_limit(self, tmp_path):
        a, b = arrays(tmp_path / "a.npy", rows(30)), arrays(tmp_path / "b.npy", rows(30, 3, 1))
        pairs = Pairs.of(a, b, limit=13)
        ids, x, y = pairs.read()
        assert (pairs.count, pairs.unused, len(set(ids))) == (13, 17, 13)
        places = [int(id) for id in ids]
        assert places != list(range(13))  # drawn, not the first
        np.testing.assert_array_equal(x, rows(30)[places])
        np.testing.assert_array_equal(y, rows(30, 3, 1)[places])
        fewer = set(Pairs.of(b, a, limit=9).read()[0])
        assert fewer < set(ids)
        assert Pairs.of(a, b, limit=30).aligned
        with pytest.raises(GramianError, match="0 pairs were asked for"):
            Pairs.of(a, b, limit=0)

    def test_texts_beside_vectors(self, tmp_path):
        """Line numbers begin at 1 and skip empty lines, row numbers do neither."""
        (tmp_path / "t.txt").write_text("a\n\nbb\nccc\n")
        texts = EmbeddedTexts(Texts.read(tmp_path / "t.txt"), Lengths())
        pairs = Pairs.of(arrays(tmp_path / "a.npy", rows(3)), texts)
        ids, x, y = pairs.read()
        assert ids == ["0", "1", "2"]
        np.testing.assert_array_equal(x, rows(3))
        np.testing.assert_array_equal(y[:, 0], [1, 2, 3])
        with pytest.raises(GramianError, match=r"has 4 rows and .* 3"):
            Pairs.of(arrays(tmp_path / "b.npy", rows(4)), texts)
        with pytest.raises(GramianError, match="line numbers alone"):
            Pairs.of(arrays(tmp_path / "c.npy", rows(3), ["1", "3", "4"]), texts)

    def test_texts_without_a_partner_are_not_embedded(self, tmp_path):
        model = Lengths()
        texts = EmbeddedTexts(Texts([f"d{i}" for i in range(20)], ["w"] * 20), model)
        a = arrays(tmp_path / "a.npy", rows(5), ["d7", "d3", "x", "d19", "d0"])
        for sides in ((a, texts), (texts, a)):
            model.seen = 0
            pairs = Pairs.of(*sides, limit=3)
            assert len(pairs.read()[0]) == 3
            assert model.seen == 3
            assert sorted(pairs.dropped) == [1, 16]

    def test_nothing_in_common(self, tmp_path):
        a = arrays(tmp_path / "a.npy", rows(3), ["a", "b", "c"])
        b = arrays(tmp_path / "b.npy", rows(3), ["d", "e", "f"])
        with pytest.raises(GramianError, match=r"no id in common .*'a' and 'd'"):
            Pairs.of(a, b)


class TestTexts:
    def test_kinds(self, tmp_path):
        (tmp_path / "t.txt").write_text("one\n\ntwo\n")
        assert Texts.read(tmp_path / "t.txt") == Texts(["1", "3"], ["one", "two"])
        (tmp_path / "t.tsv").write_text("a\tone\tmore\nb\ttwo\n")
        assert Texts.read(tmp_path / "t.tsv").texts == ["one\tmore", "two"]
        odd = "a\u2028b\x85c"
        (tmp_path / "odd.txt").write_text(f"{odd}\ntwo\r\n", "utf-8", newline="")
        assert Texts.read(tmp_path / "odd.txt").texts == [odd, "two"]
        (tmp_path / "t.jsonl").write_text('{"id": 3, "text": "one"}\n')
        assert Texts.read(tmp_path / "t.jsonl") == Texts(["3"], ["one"])

    @pytest.mark.parametrize(
        "name, text, message",
        [
            ("t.tsv", "a\tone\nb", "line 2: expected an id, a tab"),
            ("t.tsv", "a\tone\na\ttwo", "id 'a' comes twice"),
            ("t.tsv", "a\t ", "line 1 has an empty text"),
            ("t.jsonl", "{", "line 1 is no JSON"),
            ("t.jsonl", '{"text": "x"}', "line 1 has no 'id'"),
            ("t.jsonl", '{"id": 1}', "line 1 has no text"),
            ("t.csv", "a,b", "no file of texts"),
            ("t.txt", "", "holds no texts"),
        ],
    )
    def test_what_cannot_be_read(self, tmp_path, name, text, message):
        (tmp_path / name).write_text(text)
        with pytest.raises(GramianError, match=message):
            Texts.read(tmp_path / name)


class TestSample:
    def source(self, tmp_path, n=500):
        ids = [f"d{i}" for i in range(n)]
        return lines(tmp_path / "s.jsonl", ids, rows(n), [f"text {i}" for i in range(n)])

    def test_same_rows_every_time_and_others_with_another_seed(self, tmp_path):
        source = self.source(tmp_path)
        first = [row.id for row in sample(source, 50).rows]
        assert first == [row.id for row in sample(source, 50).rows]
        assert len(set(first)) == 50
        assert set(first) != {row.id for row in sample(source, 50, seed=1).rows}
        assert set(first) < {row.id for row in sample(source, 80).rows}
        assert len(sample(source, 1000).rows) == 500

    def test_every_row_alike(self, tmp_path):
        source = self.source(tmp_path, 100)
        counts = dict.fromkeys((f"d{i}" for i in range(100)), 0)
        for seed in range(60):
            for row in sample(source, 20, seed=seed).rows:
                counts[row.id] += 1
        assert np.std(list(counts.values())) < 1.4 * (60 * 0.2 * 0.8) ** 0.5

    def test_telling_rows_are_preferred(self, tmp_path):
        x = rows(500)
        x[:10] *= 30  # in directions that few others have as much of
        source = lines(
            tmp_path / "s.jsonl", [f"d{i}" for i in range(500)], x, [f"t {i}" for i in range(500)]
        )
        told = {row.id for row in sample(source, 50, strategy="telling").rows}
        assert {f"d{i}" for i in range(10)} <= told
        assert len({f"d{i}" for i in range(10)} & {row.id for row in sample(source, 50).rows}) < 6

    def test_weights_make_up_for_the_preference(self, tmp_path):
        """Weighted second moments of samples are those of the store, on average over seeds."""
        x = rows(400, 4)
        x[:20] *= 8
        source = lines(
            tmp_path / "s.jsonl", [f"d{i}" for i in range(400)], x, [f"t {i}" for i in range(400)]
        )
        whole = np.trace(x.T @ x) / 400
        plain, weighted = [], []
        for seed in range(40):
            drawn = sample(source, 40, strategy="telling", seed=seed).rows
            norms = np.asarray([row.vector @ row.vector for row in drawn])
            weight = np.asarray([row.weight for row in drawn])
            np.testing.assert_allclose(weight.mean(), 1)
            plain.append(norms.mean())
            weighted.append((norms * weight).mean())
        assert np.mean(plain) > 2 * whole
        error = np.std(weighted, ddof=1) / 40**0.5
        assert abs(np.mean(weighted) - whole) < 3 * error + 0.03 * whole
        # and a sample of the same size that is drawn at random varies more
        alike = [
            np.mean([row.vector @ row.vector for row in sample(source, 40, seed=seed).rows])
            for seed in range(40)
        ]
        assert np.std(weighted) < np.std(alike)

    def test_rows_without_a_text(self, tmp_path):
        source = lines(tmp_path / "s.jsonl", ["a", "b", "c"], rows(3), ["one", " ", "two"])
        drawn = sample(source, 5)
        assert {row.id for row in drawn.rows} == {"a", "c"}
        assert (drawn.of, drawn.textless) == (3, 1)

    def test_refusals(self, tmp_path):
        source = arrays(tmp_path / "a.npy", rows(10))
        with pytest.raises(GramianError, match="carries no texts"):
            sample(source, 5)
        assert len(sample(source, 5, texts=False).rows) == 5
        with pytest.raises(GramianError, match="strategy is 'best'"):
            sample(source, 5, strategy="best")
        with pytest.raises(GramianError, match="sample of 0 rows"):
            sample(source, 0)


class TestDrift:
    def shards(self, mix, n=8000):
        found = IndexShards()
        found.update([f"d{i}" for i in range(n)], (rows(n, 24, 1) @ mix).astype(np.float32))
        return found.full()

    def mix(self, seed=0):
        return np.random.default_rng(seed).standard_normal((24, 24)) * np.linspace(0.1, 2, 24)

    @pytest.mark.parametrize("n", [100, 400, 2000])
    def test_random_samples_do_not_drift(self, n):
        mix = self.mix()
        shards = self.shards(mix)
        found = [
            drift(Moments.from_rows(rows(n, 24, seed) @ mix), shards).drifted
            for seed in range(100, 130)
        ]
        assert sum(found) <= 1

    def test_small_samples_of_a_large_index(self):
        """Shards are as small as the sample, where few rows per dimension make all the difference;
        pairs of the same kind do not drift, though they are not in the index."""
        mix, width = np.linspace(0.05, 1, 96), 96
        found = IndexShards(12_000, 60)
        found.update([f"d{i}" for i in range(12_000)], rows(12_000, width, 1) * mix)
        sizes = [shard.count for shard in found.full()]
        assert len(sizes) == 16
        assert 30 < min(sizes) < max(sizes) < 100
        assert found.rest.count == 12_000 - sum(sizes)
        for seed in range(100, 110):
            other = Moments.from_rows(rows(60, width, seed) * mix)
            result = drift(other, found.full(), found.rest)
            assert not result.drifted
            assert 0.8 < result.ratio < 1.2
        turned = Moments.from_rows(rows(60, width, 5) * mix[::-1])
        assert drift(turned, found.full(), found.rest).drifted

    @pytest.mark.parametrize("n", [100, 400, 2000])
    def test_another_domain_does(self, n):
        shards = self.shards(self.mix())
        other = rows(n, 24, 5) @ (0.8 * self.mix() + 0.2 * self.mix(3))
        assert drift(Moments.from_rows(other), shards).drifted
        moved = rows(n, 24, 6) @ self.mix() + 1.0
        assert drift(Moments.from_rows(moved), shards).drifted

    def test_refusals(self):
        shards = self.shards(self.mix())
        with pytest.raises(GramianError, match="width 5, an index of 24"):
            drift(Moments.from_rows(rows(10)), shards)
        with pytest.raises(GramianError, match="at least 3"):
            drift(Moments.from_rows(rows(10, 24)), shards[:2])
