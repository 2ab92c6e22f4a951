"""All layers of SmolLM2-135M against all others (31 x 31), beside torch_cka and netrep.

    python benchmarks/compare.py [--tokens 16384] [--sites 31] [--json]

In one run, on the same stored rows: accumulating moments and debiased CKA of every pair; torch_cka,
in mini-batches of `--peer-batch` rows as it works (fewer rows than dimensions are quicker and far
off), on `--torch-cka-sites` sites and scaled to all ordered pairs; netrep's LinearCKA, two Gram
matrices of all rows per pair, timed on `--netrep-pairs` pairs and scaled to all, and its
LinearMetric beside our angular distance. Then our own path from the text: one pass through the
network, and the measures alone on what it left. Peak memory is that of fresh processes that stream
rows.

netrep is not on PyPI; put a clone of it on PYTHONPATH. torch_cka draws with matplotlib:
`pip install --no-deps torch_cka && pip install matplotlib tqdm`. A peer that cannot be imported is
reported as not installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

import gramian as gm
from gramian.measures import shape_distance
from gramian.moments import Accumulator, JointMoments, MomentSet, MomentSetWriter, Pair, Recipe
from gramian.networks.collect import batches

SETTINGS = {"length": 512, "batch_rows": 2048}
RECIPE = Recipe("stored rows", "0" * 64, {}, "0" * 64, "none", 512, False)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def stored_rows(base: Any, docs: Any, sites: list[str], tokens: int) -> dict[str, Tensor]:
    """Rows (n, d) of every site, float32, first positions left out, as a peer needs them."""
    kept: dict[str, list[Tensor]] = {site: [] for site in sites}
    for batch in batches(base, docs, tokens=tokens, **SETTINGS):
        mask = batch.mask.clone()
        mask[:, 0] = False
        seen = gm.networks.capture(base.model, base.blueprint, sites, batch.ids, batch.mask).rows
        for site in sites:
            kept[site].append(seen[site][mask].float())
    return {site: torch.cat(parts) for site, parts in kept.items()}


def accumulate(rows: dict[str, Tensor]) -> Accumulator:
    """Moments of every site and pair, streamed in batches."""
    sums = Accumulator({s: x.shape[1] for s, x in rows.items()}, pairs_of(list(rows)))
    n = len(next(iter(rows.values())))
    for start in range(0, n, SETTINGS["batch_rows"]):
        sums.update({site: x[start : start + SETTINGS["batch_rows"]] for site, x in rows.items()})
    return sums


def pairs_of(sites: list[str]) -> list[Pair]:
    return [Pair(x, y) for x, y in combinations(sites, 2)]


def as_set(sums: Accumulator) -> MomentSet:
    with MomentSetWriter(None, RECIPE) as writer:
        for site in sums.sites:
            writer.put_site(site, "train", sums.moments(site))
            for pair in sums.pairs:
                if pair.x == site:
                    writer.put_pair(pair, "train", sums.joint(pair))
        return writer.finish()


def ours(rows: dict[str, Tensor]) -> Tensor:
    found = gm.compare.compare(as_set(accumulate(rows)), measures=["cka"], errors=False)
    return found.matrix("cka").values


class Stored(nn.Module):
    """Gives stored rows out again, one site per sub-module, as torch_cka hooks modules."""

    def __init__(self, sites: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(nn.Identity() for _ in range(sites))

    def forward(self, x: Tensor) -> Tensor:
        for layer, part in zip(self.layers, x.split(self.width, dim=1), strict=True):
            layer(part)
        return x


def torch_cka(rows: dict[str, Tensor], batch: int) -> tuple[float, Tensor] | None:
    """Seconds and the matrix of torch_cka, or None where it is not installed."""
    try:
        from torch_cka import CKA
    except ImportError:
        return None
    from torch.utils.data import DataLoader, TensorDataset

    data = torch.cat(list(rows.values()), dim=1)
    data = data[: len(data) // batch * batch]
    width = next(iter(rows.values())).shape[1]
    names = [f"layers.{i}" for i in range(len(rows))]
    loader = DataLoader(TensorDataset(data), batch_size=batch)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        a, b = (Stored(len(rows), width) for _ in range(2))
        cka = CKA(a, b, "a", "b", names, names)
        seconds, _ = timed(lambda: cka.compare(loader, loader))
    return seconds, cka.export()["CKA"]


def netrep(rows: dict[str, Tensor], pairs: int) -> dict[str, Any] | None:
    """Seconds per pair of netrep's CKA and Procrustes angle, or None where it is not installed."""
    try:
        from netrep.metrics import LinearMetric
        from netrep.metrics.cka import LinearCKA
    except ImportError:
        return None
    sites = list(rows)
    chosen = list(combinations(sites, 2))[:: max(1, len(sites) * (len(sites) - 1) // 2 // pairs)]
    spent: dict[str, list[float]] = {"cka": [], "angular": [], "our_angular": []}
    gap = 0.0
    for x, y in chosen[:pairs]:
        a, b = rows[x].double(), rows[y].double()
        spent["cka"].append(timed(lambda a=a, b=b: LinearCKA().score(a.numpy(), b.numpy()))[0])
        metric = LinearMetric(alpha=1.0, center_columns=True, score_method="angular")
        seconds, angle = timed(
            lambda a=a, b=b, metric=metric: metric.fit_score(a.numpy(), b.numpy())
        )
        spent["angular"].append(seconds)
        joint = JointMoments.from_rows(a, b)
        seconds, mine = timed(lambda joint=joint: shape_distance(joint, kind="angular"))
        spent["our_angular"].append(seconds)
        gap = max(gap, abs(float(angle) - mine))
    found: dict[str, Any] = {f"{k}_seconds_per_pair": sum(v) / len(v) for k, v in spent.items()}
    return found | {"pairs_timed": len(chosen[:pairs]), "largest_gap_of_angles": gap}


def peak_memory(rows: int, sites: int, width: int) -> int:
    """Peak resident bytes of a fresh process that streams this many rows of every site."""
    code = (
        "import pathlib, torch\n"
        "from benchmarks.compare import as_set, pairs_of\n"
        "import gramian as gm\n"
        f"names = [f'{{i}}.resid_pre' for i in range({sites})]\n"
        f"sums = gm.moments.Accumulator({{n: {width} for n in names}}, pairs_of(names))\n"
        f"for _ in range(0, {rows}, 2048):\n"
        f"    sums.update({{n: torch.randn(2048, {width}) for n in names}})\n"
        "gm.compare.compare(as_set(sums), measures=['cka'], errors=False)\n"
        # Not getrusage: its peak is inherited from the parent.
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(int(status.split('VmHWM:')[1].split()[0]) * 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def beside_peers(rows: dict[str, Tensor], options: argparse.Namespace) -> dict[str, Any]:
    """The matrix from stored rows: ours, torch_cka's, and netrep's on some pairs."""
    every = len(rows) * (len(rows) - 1) // 2
    result: dict[str, Any] = {"rows": len(next(iter(rows.values()))), "sites": len(rows)}
    result |= {"pairs": every, "threads": torch.get_num_threads()}
    ours({site: x[:2048] for site, x in rows.items()})  # warm-up
    result["ours_seconds"], matrix = timed(lambda: ours(rows))
    few = min(options.torch_cka_sites, len(rows))
    peer = torch_cka({site: rows[site] for site in list(rows)[:few]}, options.peer_batch)
    result["torch_cka_seconds_scaled"] = None
    if peer is not None:
        scaled = peer[0] * (len(rows) / few) ** 2
        result |= {"torch_cka_batch": options.peer_batch, "torch_cka_sites": few}
        result |= {"torch_cka_seconds_scaled": scaled}
        result["torch_cka_ratio"] = scaled / result["ours_seconds"]
        gap = (peer[1].double() - matrix[:few, :few]).abs().max()
        result["torch_cka_largest_gap"] = float(gap)
    other = netrep(rows, options.netrep_pairs)
    result["netrep"] = other
    if other is not None:
        scaled = other["cka_seconds_per_pair"] * every
        result["netrep_seconds_scaled"] = scaled
        result["netrep_ratio"] = scaled / result["ours_seconds"]
    return result


def from_text(base: Any, docs: Any, sites: list[str], tokens: int) -> dict[str, Any]:
    """One pass through the network, and the measures alone on what it left."""
    needs = gm.compare.needs(base, sites)
    seconds, moments = timed(lambda: gm.collect(base, docs, needs, tokens=tokens, **SETTINGS))
    result = {"collect_seconds": seconds}
    for name, arguments in (("cka", {"errors": False}), ("cka_with_errors", {})):
        result[f"measures_alone_seconds_{name}"], _ = timed(
            lambda arguments=arguments: gm.compare.compare(moments, measures=["cka"], **arguments)
        )
    return result


def measure(options: argparse.Namespace) -> dict[str, Any]:
    base, docs = gm.open("bundled:smollm2"), gm.documents("bundled:pydocs")
    sites = list(base.blueprint.residual_sites())[: options.sites]
    base.digest  # noqa: B018  hashed once per checkpoint, not once per collection
    result = beside_peers(stored_rows(base, docs, sites, options.tokens), options)
    result |= from_text(base, docs, sites, options.tokens)
    if not options.no_memory:
        width, n = base.blueprint.width, result["rows"]
        for times in (1, 4):
            result[f"peak_bytes_{times}x_rows"] = peak_memory(times * n, len(sites), width)
        result["bytes_of_stored_rows"] = 4 * n * width * len(sites)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--sites", type=int, default=31)
    parser.add_argument("--peer-batch", type=int, default=1024)
    parser.add_argument("--torch-cka-sites", type=int, default=8)
    parser.add_argument("--netrep-pairs", type=int, default=2)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        shown = "not installed" if value is None else value
        print(f"{name:32} {shown:,.3f}" if isinstance(value, float) else f"{name:32} {shown}")


if __name__ == "__main__":
    main()
