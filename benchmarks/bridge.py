"""Bridges: fitting, applying and unpaired matching, each beside its peers and its physical limit.

    python benchmarks/bridge.py [fit memory apply unpaired] [--rows 200000] [--json]

fit: `--rows` pairs of 384 -> 768, float32: our estimator, scikit-learn's Ridge and SciPy's
orthogonal Procrustes (rows padded to equal widths, which it needs), beside the two products that no
least squares fit can avoid (`syrk` of the source, `gemm` of source and target). Systems run in
turn, `--repeats` times; ratios are of medians.

memory: anonymous memory (what is not the file itself) of fresh processes that fit a bridge to
memory-mapped float16 files of `--memory-rows` rows and of a tenth of them.

apply: `--rows` rows of 384 -> 768 in batches as `gramian bridge apply` maps them (each row checked,
then scaled to length 1), and by the estimator's `transform`, beside the plain product of the same
batches.

unpaired: two clouds of 20,000 rows of 384 that share no row, the second turned; ours beside the
published steps of mini-vec2vec (`vec2vec_transcription.py`). top-1: 1,000 rows among their
partners.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
PARTS = ("fit", "memory", "apply", "unpaired")


def in_turn(systems: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of every system; they take turns, so a slow minute hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(repeats):
        for name, run in systems.items():
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    return {name: median(seconds) for name, seconds in times.items()}


def pairs(rows: int, source: int, target: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Unit rows whose target is a linear map of the source and as much noise."""
    draw = np.random.default_rng(seed)
    weight = draw.standard_normal((source, target), dtype=np.float32) / source**0.5
    x = draw.standard_normal((rows, source), dtype=np.float32)
    y = x @ weight + 0.5 * draw.standard_normal((rows, target), dtype=np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    return x, y


def fit(rows: int, repeats: int) -> dict[str, float]:
    from scipy.linalg import blas, orthogonal_procrustes
    from sklearn.linear_model import Ridge

    from gramian.bridge import Bridge

    x, y = pairs(rows, 384, 768)
    padded = np.pad(x, ((0, 0), (0, 384)))
    systems = {
        "products": lambda: (blas.ssyrk(1.0, x.T), blas.sgemm(1.0, y.T, x.T, trans_b=True)),
        "ridge": lambda: Bridge("ridge", lam=1.0).fit(x, y),
        "procrustes": lambda: Bridge("procrustes").fit(x, y),
        "auto": lambda: Bridge("auto").fit(x, y),
        "scikit-learn Ridge": lambda: Ridge(alpha=1.0).fit(x, y),
        "SciPy Procrustes, padded": lambda: orthogonal_procrustes(padded, y),
    }
    seconds = in_turn(systems, repeats)
    return seconds | {
        "ridge over products": seconds["ridge"] / seconds["products"],
        "scikit-learn over ridge": seconds["scikit-learn Ridge"] / seconds["ridge"],
        "SciPy over procrustes": seconds["SciPy Procrustes, padded"] / seconds["procrustes"],
    }


def memory(rows: int) -> dict[str, float]:
    """Peak of anonymous memory of a fit from files, in MB, at a tenth of the rows and at all."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("x", "y"):
            write_rows(Path(folder) / f"{name}.npy", rows, 384, seed=ord(name))
        for count in (rows // 10, rows):
            run = [sys.executable, __file__, "--child", folder, "--rows", str(count)]
            out = subprocess.run(run, check=True, capture_output=True, text=True).stdout
            peak, seconds = json.loads(out)
            found[f"{count:,} rows, MB"] = peak
            found[f"{count:,} rows, seconds"] = seconds
    return found


def write_rows(path: Path, rows: int, width: int, seed: int) -> None:
    """A float16 file of rows, repeating a block of 65,536 with a little of its own in each."""
    draw = np.random.default_rng(seed)
    block = draw.standard_normal((65_536, width), dtype=np.float32)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(rows, width))
    for number, start in enumerate(range(0, rows, len(block))):
        piece = out[start : start + len(block)]
        piece[:] = block[: len(piece)] * (1 + 0.001 * number)


def child(folder: str, rows: int) -> None:
    """Fit to the files in a folder and print the peak of anonymous memory in MB, and seconds."""
    from threading import Event, Thread

    from gramian.bridge import Bridge

    x, y = (np.load(Path(folder) / f"{name}.npy", mmap_mode="r")[:rows] for name in "xy")
    peak, done = [0.0], Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], anonymous())

    watcher = Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    bridge = Bridge("ridge", lam=1.0)
    for start in range(0, rows, 65_536):
        bridge.partial_fit(x[start : start + 65_536], y[start : start + 65_536])
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    print(json.dumps([peak[0], seconds]))


def anonymous() -> float:
    """Memory of this process that is no file, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise SystemExit("memory is read from /proc/self/status, which this system does not have")


def apply(rows: int, repeats: int) -> dict[str, float]:
    from gramian.bridge import Bridge, SavedBridge, Space
    from gramian.bridge.across import BatchMap
    from gramian.bridge.carrying import BATCH
    from gramian.bridge.vectors import VectorBatch

    x, y = pairs(rows, 384, 768)
    bridge = Bridge("ridge", lam=1.0).fit(x[:20_000], y[:20_000])
    saved = SavedBridge(
        bridge.map_,
        Space("new", 384),
        Space("old", 768),
        "query_to_old",
        "ridge",
        20_000,
        normalise=True,
    )
    across = BatchMap(saved)
    weight = np.ascontiguousarray(bridge.map_.to_dense().numpy().astype(np.float32).T)
    ids = [str(row) for row in range(rows)]
    batches = [
        VectorBatch(ids[start : start + BATCH], x[start : start + BATCH], None, start)
        for start in range(0, rows, BATCH)
    ]

    def product() -> None:
        for batch in batches:
            batch.vectors @ weight

    def carried() -> None:
        for batch in batches:
            across(batch)

    systems = {"product": product, "apply": carried, "transform": lambda: bridge.transform(x)}
    seconds = in_turn(systems, repeats)
    return seconds | {
        "apply: rate of a plain product": seconds["product"] / seconds["apply"],
        "transform: rate of a plain product": seconds["product"] / seconds["transform"],
    }


def clouds(rows: int, width: int, seed: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Two clouds of one distribution that share no row, the second turned, and 1,000 pairs.

    60 clusters of unequal size, each with axes of its own.
    """
    draw = np.random.default_rng(seed)
    centres = draw.standard_normal((60, width), dtype=np.float32) * np.linspace(2, 0.5, width)
    axes = draw.standard_normal((60, width, width), dtype=np.float32) * (0.6 / width**0.5)
    member = draw.choice(60, 2 * rows + 1000, p=draw.dirichlet(np.ones(60)))
    noise = draw.standard_normal((len(member), width), dtype=np.float32)
    found = np.empty((len(member), width), np.float32)
    for cluster in range(60):
        at = member == cluster
        found[at] = centres[cluster] + noise[at] @ axes[cluster]
    turn = np.linalg.qr(draw.standard_normal((width, width)))[0].astype(np.float32)
    pairs = found[2 * rows :]
    return found[:rows], found[rows : 2 * rows] @ turn, pairs, pairs @ turn


def top_1(mapped: NDArray[Any], partners: NDArray[Any]) -> float:
    """The share of rows whose nearest partner by cosine is their own."""
    mapped, partners = (r / np.linalg.norm(r, axis=1, keepdims=True) for r in (mapped, partners))
    return float(((mapped @ partners.T).argmax(1) == np.arange(len(mapped))).mean())


def unpaired(rows: int, repeats: int) -> dict[str, float]:
    if __package__:
        from benchmarks.vec2vec_transcription import align
    else:
        from vec2vec_transcription import align

    from gramian.bridge import UnpairedBridge

    times: dict[str, list[float]] = {"ours": [], "published steps": []}
    right: dict[str, list[float]] = {"ours": [], "published steps": []}
    for seed in range(repeats):
        x, y, left, partners = clouds(rows, 384, seed)
        started = time.perf_counter()
        bridge = UnpairedBridge(on_ambiguous="warn", random_state=seed).fit(x, y)
        times["ours"].append(time.perf_counter() - started)
        right["ours"].append(top_1(bridge.transform(left), partners))
        started = time.perf_counter()
        weight, mean_x, mean_y = align(x.astype(np.float64), y.astype(np.float64), seed=seed)
        times["published steps"].append(time.perf_counter() - started)
        right["published steps"].append(top_1((left - mean_x) @ weight, partners - mean_y))
    return {
        **{f"{name}, seconds": median(seconds) for name, seconds in times.items()},
        **{f"{name}, lowest top-1": min(shares) for name, shares in right.items()},
        "published steps over ours": median(times["published steps"]) / median(times["ours"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--memory-rows", type=int, default=5_000_000)
    parser.add_argument("--cloud-rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cloud-repeats", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.rows)
        return
    runs: dict[str, Callable[[], dict[str, float]]] = {
        "fit": lambda: fit(arguments.rows, arguments.repeats),
        "memory": lambda: memory(arguments.memory_rows),
        "apply": lambda: apply(arguments.rows, arguments.repeats),
        "unpaired": lambda: unpaired(arguments.cloud_rows, arguments.cloud_repeats),
    }
    found = {part: runs[part]() for part in arguments.parts}
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for part, values in found.items():
        for name, value in values.items():
            print(f"{part:10} {name:32} {value:12,.3f}")


if __name__ == "__main__":
    main()
