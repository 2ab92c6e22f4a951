"""Projecting wide rows: the fast transform against one dense Gaussian product.

    python benchmarks/project.py [--rows 256] [--out 512] [--json]

Both in float32 on the same rows. The dense matrix is multiplied by BLAS, so it wins at small
widths; the table says from which width on the fast transform does, and what each map stores.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from torch import Tensor

from gramian.maps import Dense, LinearMap, fjlt


def seconds(map: LinearMap, rows: Tensor, repeats: int) -> float:
    map(rows)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        map(rows)
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--out", type=int, default=512)
    parser.add_argument("--widths", type=int, nargs="+", default=[1024, 4096, 16384, 65536])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    table = []
    for width in arguments.widths:
        rows = torch.randn(arguments.rows, width, generator=torch.Generator().manual_seed(0))
        gaussian = torch.randn(arguments.out, width, generator=torch.Generator().manual_seed(1))
        maps: dict[str, LinearMap] = {
            "dense": Dense(gaussian / arguments.out**0.5),
            "fjlt rows": fjlt(width, arguments.out, seed=2, kind="rows"),
            "fjlt sparse": fjlt(width, arguments.out, seed=2),
        }
        entry: dict[str, float] = {"width": width}
        for name, map in maps.items():
            entry[f"{name} ms"] = 1e3 * seconds(map, rows, arguments.repeats)
            entry[f"{name} numbers"] = map.parameters
        table.append(entry)
    if arguments.json:
        print(json.dumps(table, indent=2))
        return
    for entry in table:
        print("  ".join(f"{name} {value:,.4g}" for name, value in entry.items()))


if __name__ == "__main__":
    main()
