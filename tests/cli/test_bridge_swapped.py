"""gramian bridge swapped: verdicts, exit status, documented keys."""

from __future__ import annotations

import numpy as np
import pytest

KEYS = {"verdict", "shared", "at", "stretches", "drift", "reason"}


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    x = (draw.standard_normal((4000, 32)) * np.geomspace(2, 0.1, 32)).astype(np.float32)
    turned = (x @ np.linalg.qr(draw.standard_normal((32, 32)))[0]).astype(np.float32)
    np.save(tmp_path / "january.npy", x[:2000])
    np.save(tmp_path / "february.npy", x[2000:])
    np.save(tmp_path / "march.npy", turned[2000:])
    np.save(tmp_path / "index.npy", np.concatenate([x[:3000], turned[3000:]]))
    np.save(tmp_path / "narrow.npy", x[:, :16])
    return tmp_path


def test_two_places(gramian, folder):
    done = gramian("bridge", "swapped", folder / "january.npy", folder / "february.npy", "--check")
    assert done.code == 0
    assert done.out.startswith("same")
    sides = (folder / "january.npy", folder / "march.npy")
    done = gramian("bridge", "swapped", *sides, "--json")
    assert done.code == 0
    assert set(done.json) == KEYS
    assert done.json["verdict"] == "swapped"
    assert gramian("bridge", "swapped", *sides, "--check").code == 1


def test_one_place(gramian, folder):
    done = gramian("bridge", "swapped", folder / "index.npy", "--json", "--check")
    assert done.code == 1
    assert done.json["at"] == 3000
    assert done.json["stretches"] == [[3000, 4000]]


def test_widths(gramian, folder):
    done = gramian("bridge", "swapped", folder / "january.npy", folder / "narrow.npy")
    assert done.code == 2
    assert "32 and 16" in done.err
