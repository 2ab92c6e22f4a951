"""Bridges: fitting, applying and unpaired matching, each beside its peers and its physical limit.

    python benchmarks/bridge.py [fit memory apply] [--rows 200000] [--json]

fit: `--rows` pairs of 384 -> 768, float32: our estimator, scikit-learn's Ridge and SciPy's
orthogonal Procrustes (rows padded to equal widths, which it needs), beside the two products that no
least squares fit can avoid (`syrk` of the source, `gemm` of source and target). Systems run in
turn, `--repeats` times; ratios are of medians.

memory: anonymous memory (what is not the file itself) of fresh processes that fit a bridge to
memory-mapped float16 files of `--memory-rows` rows and of a tenth of them.

apply: a bridge carried over an array, beside the plain product of the same rows.
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
PARTS = ("fit", "memory", "apply")


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
    from gramian.bridge import Bridge

    x, y = pairs(rows, 384, 768)
    bridge = Bridge("ridge", lam=1.0).fit(x[:20_000], y[:20_000])
    weight = np.ascontiguousarray(bridge.map_.to_dense().numpy().astype(np.float32).T)
    systems = {"product": lambda: x @ weight, "transform": lambda: bridge.transform(x)}
    seconds = in_turn(systems, repeats)
    return seconds | {"rate of a plain product": seconds["product"] / seconds["transform"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--memory-rows", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=5)
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
