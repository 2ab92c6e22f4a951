"""State of work in progress: one whole generation, whatever moment the process is killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from gramian.errors import GramianError
from gramian.moments.state import clear_state, load_state, save_state

WRITER = """
import sys, torch
from gramian.moments.state import load_state, save_state
folder = sys.argv[1]
found = load_state(folder)
step = 0 if found is None else found[1]["step"]
print("ready", flush=True)
while True:
    step += 1
    a = torch.full((40_000,), float(step), dtype=torch.float64)
    save_state(folder, {"a": a, "b": torch.tensor(step)}, {"step": step})
"""


def test_round_trip_and_one_generation_on_disk(tmp_path: Path) -> None:
    assert load_state(tmp_path / "new") is None
    tensors = {
        "wide": torch.randn(3, 4, dtype=torch.float64),
        "scalar": torch.tensor(7),
        "empty": torch.empty(0, 5),
        "half": torch.randn(3).to(torch.bfloat16),
        "flags": torch.tensor([True, False, True]),
        "strided": torch.arange(12.0).reshape(3, 4).T,
    }
    for step in range(3):
        save_state(tmp_path, tensors, {"step": step, "pilot": {"site": [1.5, None]}})
    loaded = load_state(tmp_path)
    assert loaded is not None
    assert loaded[1] == {"step": 2, "pilot": {"site": [1.5, None]}}
    assert set(loaded[0]) == set(tensors)
    for name, tensor in tensors.items():
        assert loaded[0][name].dtype == tensor.dtype
        assert torch.equal(loaded[0][name], tensor)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["state-3.safetensors", "state.json"]
    clear_state(tmp_path)
    assert load_state(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_state_outlives_its_file(tmp_path: Path) -> None:
    save_state(tmp_path, {"a": torch.ones(4)}, {})
    loaded = load_state(tmp_path)
    clear_state(tmp_path)
    assert loaded is not None
    assert torch.equal(loaded[0]["a"], torch.ones(4))


@pytest.mark.parametrize("moment", ["tensors", "pointer", "cleaning"])
def test_cut_short_at_each_step(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_state(tmp_path, {"a": torch.tensor(1)}, {"step": 1})

    class Killed(BaseException):
        pass

    def stop(*_: object, **__: object) -> None:
        raise Killed

    targets = {"tensors": "write_tensors", "pointer": "write_bytes"}
    with monkeypatch.context() as patch:
        if moment == "cleaning":
            patch.setattr(Path, "unlink", stop)
        else:
            patch.setattr(f"gramian.moments.state.{targets[moment]}", stop)
        with pytest.raises(Killed):
            save_state(tmp_path, {"a": torch.tensor(2)}, {"step": 2})
    loaded = load_state(tmp_path)
    assert loaded is not None
    assert int(loaded[0]["a"]) == loaded[1]["step"] == (2 if moment == "cleaning" else 1)
    save_state(tmp_path, {"a": torch.tensor(3)}, {"step": 3})
    assert len(list(tmp_path.iterdir())) == 2


def test_killed_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(0)
    last = 0
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.05 + 0.1 * chance.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        loaded = load_state(tmp_path)
        assert loaded is not None
        step = loaded[1]["step"]
        assert isinstance(step, int)
        assert step > last
        assert torch.equal(loaded[0]["a"], torch.full((40_000,), float(step), dtype=torch.float64))
        assert int(loaded[0]["b"]) == step
        last = step


def test_changed_files_are_refused(tmp_path: Path) -> None:
    save_state(tmp_path, {"a": torch.ones(100)}, {"step": 1})
    file, pointer = tmp_path / "state-1.safetensors", tmp_path / "state.json"
    whole, text = file.read_bytes(), pointer.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(GramianError, match=r"state-1\.safetensors: changed.*delete"):
        load_state(tmp_path)
    file.write_bytes(whole[:-1] + b"\1")
    with pytest.raises(GramianError, match=r"state-1\.safetensors: changed"):
        load_state(tmp_path)
    file.unlink()
    with pytest.raises(GramianError, match=r"state-1\.safetensors: missing"):
        load_state(tmp_path)
    file.write_bytes(whole)
    pointer.write_bytes(text.replace(b'"step":1', b'"step":2'))
    with pytest.raises(GramianError, match=r"state\.json: changed"):
        load_state(tmp_path)


def test_meta_must_be_json(tmp_path: Path) -> None:
    for bad in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises(GramianError, match="meta is not JSON"):
            save_state(tmp_path, {}, bad)
    assert load_state(tmp_path) is None
