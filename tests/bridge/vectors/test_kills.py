"""Runs that die at any moment while they write a file."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

from gramian.bridge.vectors import VectorBatch, open_sink, open_vectors
from gramian.errors import GramianError

N, D = 12, 3
ROWS = np.random.default_rng(3).standard_normal((N, D)).astype(np.float32)
IDS = [str(7 * i + 1) for i in range(N)]
KINDS = ["npy", "jsonl", "parquet", "faiss"]
TOUCHES = ("open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir")


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class Fuse:
    """Stops the process at its n-th touch of the file system."""

    def __init__(self):
        self.left = None
        sys.addaudithook(self)

    def __call__(self, event, args):
        if self.left is not None and event in TOUCHES:
            self.left -= 1
            if self.left < 0:
                raise Killed


@pytest.fixture(scope="module")
def fuse():
    return Fuse()


def run(path, rows=ROWS, *, force=False):
    sink = open_sink(str(path), dim=D, purpose={"bridge": "b"}, force=force)
    for first in range(sink.done, N, 5):
        part = slice(first, first + 5)
        sink.write(VectorBatch(IDS[part], rows[part], None, first))
    sink.finish({"model": "m"})


def check(path, rows=ROWS):
    source = open_vectors(str(path))
    read = list(source.batches())
    assert [id for batch in read for id in batch.ids] == IDS
    np.testing.assert_array_equal(np.concatenate([batch.vectors for batch in read]), rows)
    assert source.stamp == {"model": "m"}


@pytest.mark.parametrize("kind", KINDS)
def test_at_every_touch_of_the_file_system(kind, fuse, tmp_path):
    run(tmp_path / f"first.{kind}")  # imports touch files too
    for moment in range(500):
        path = tmp_path / f"{moment}" / f"out.{kind}"
        path.parent.mkdir()
        fuse.left = moment
        try:
            run(path)
            died = False
        except Killed:
            died = True
        finally:
            fuse.left = None
        if died and not path.exists():
            run(path)
        check(path)  # where it has its name it is whole
        if not died:
            break
        run(path, -ROWS, force=True)  # and what a kill left behind is not taken for something new
        if not (path.parent / f"out.{kind}.partial").exists():
            source = open_vectors(str(path))
            assert abs(next(source.batches()).vectors).max() > 0
    assert not died
    assert moment > 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_is_replaced_is_never_mixed_with_the_new_one(kind, fuse, tmp_path):
    for moment in range(500):
        path = tmp_path / f"{moment}" / f"out.{kind}"
        path.parent.mkdir()
        run(path)
        fuse.left = moment
        try:
            run(path, -ROWS, force=True)
            died = False
        except Killed:
            died = True
        finally:
            fuse.left = None
        if path.exists():
            read = next(open_vectors(str(path)).batches()).vectors
            assert np.array_equal(read, ROWS) or np.array_equal(read, -ROWS)
        if not died:
            break
        run(path, -ROWS, force=True)
        check(path, -ROWS)
    assert not died


def test_by_the_system(tmp_path):
    path = tmp_path / "out.npy"
    code = f"""
import os, signal, numpy as np
from gramian.bridge.vectors import VectorBatch, open_sink
rows = np.load({str(tmp_path / "rows.npy")!r})
sink = open_sink({str(path)!r}, dim={D}, purpose={{"bridge": "b"}})
append = sink._append
def die(batch):
    append(batch)
    os.kill(os.getpid(), signal.SIGKILL)
ids = {IDS!r}
sink.write(VectorBatch(ids[:5], rows[:5], None, 0))
sink._append = die
sink.write(VectorBatch(ids[5:10], rows[5:10], None, 5))
"""
    np.save(tmp_path / "rows.npy", ROWS)
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert not path.exists()
    assert open_sink(str(path), dim=D, purpose={"bridge": "b"}).done == 5
    run(path)
    check(path)


@pytest.mark.parametrize("kind", KINDS)
def test_less_than_the_journal_says_is_refused(kind, tmp_path):
    path = tmp_path / f"out.{kind}"
    sink = open_sink(str(path), dim=D)
    sink.write(VectorBatch(IDS, ROWS))
    (tmp_path / f"out.{kind}.partial" / "journal").write_text(f"{N + 1}\n")
    with pytest.raises(GramianError, match=r"less than the 13 rows"):
        open_sink(str(path), dim=D)


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path):
    folder = tmp_path / "out.npy.partial"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    for force in (False, True):
        with pytest.raises(GramianError, match="no part of a result"):
            open_sink(str(tmp_path / "out.npy"), dim=D, force=force)
    assert (folder / "thesis.txt").read_text() == "years of work"


def test_a_batch_that_was_refused_leaves_no_trace(tmp_path):
    sink = open_sink(str(tmp_path / "out.npy"), dim=D, purpose={"bridge": "b"})
    with pytest.raises(GramianError, match="line break"):
        sink.write(VectorBatch(["a\nb"], ROWS[:1]))
    sink.write(VectorBatch(IDS, ROWS))
    sink.finish({"model": "m"})
    check(tmp_path / "out.npy")


def test_a_full_disk(tmp_path, monkeypatch):
    path = tmp_path / "out.npy"
    sink = open_sink(str(path), dim=D, purpose={"bridge": "b"})
    sink.write(VectorBatch(IDS[:5], ROWS[:5]))
    append = sink._append

    def full(batch):
        append(batch)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sink, "_append", full)
    with pytest.raises(OSError, match="No space"):
        sink.write(VectorBatch(IDS[5:], ROWS[5:], None, 5))
    with pytest.raises(GramianError, match="open the place again"):
        sink.write(VectorBatch(IDS[5:], ROWS[5:], None, 5))
    run(path)
    check(path)


def test_texts_that_some_batches_lack(tmp_path):
    path = tmp_path / "out.parquet"
    for texts in ((None, ["b"]), (["a"], None)):
        sink = open_sink(str(path), dim=D, force=True)
        for place, text in enumerate(texts):
            batch = VectorBatch([f"d{place}"], ROWS[place : place + 1], text, place)
            sink.write(batch)
        sink.finish({})
        read = [batch.texts for batch in open_vectors(str(path)).batches(1)]
        assert read == list(texts)
