"""What keeping to a budget costs, on SmolLM2-135M: one pass, windows, blockwise and spill.

    python benchmarks/memory.py [--tokens 16384] [--repeats 3] [--json]

All modes run in turn in every round, so that a slow minute of the machine slows them alike; ratios
to one pass are taken within a round and their median reported. Every mode gets the same budget, a
quarter of what one pass takes. Peak memory is that of a fresh process for each mode, beyond that of
the same process after the model has run one batch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

import torch

import gramian as gm
from gramian.networks.needs import linears
from gramian.networks.passes import plan_passes

SETTINGS = {"length": 512, "batch_rows": 2048}
MODES = ("stream", "windows", "blockwise", "spill")
JOBS = {"lens": "gm.lens.needs(base)", "linears": "linears(base)"}


def seconds(base: Any, docs: Any, needs: gm.Needs, tokens: int, mode: str, budget: int) -> float:
    started = time.perf_counter()
    memory = None if mode == "stream" else budget
    gm.collect(base, docs, needs, tokens=tokens, mode=mode, memory=memory, **SETTINGS)
    return time.perf_counter() - started


def peak(job: str, tokens: int, mode: str, budget: int) -> int:
    """Bytes that a collection adds to a process in which the model has run one batch; the result
    goes to disk, so that it does not count."""
    code = f"""
import json, pathlib, resource, tempfile, torch, gramian as gm
from gramian.networks.collect import batches
from gramian.networks.needs import linears
base = gm.open("bundled:smollm2"); docs = gm.documents("bundled:pydocs")
anonymous = lambda: max(
    int(line.split()[1]) for line in pathlib.Path("/proc/self/status").read_text().splitlines()
    if line.startswith("VmHWM")
) * 1024
base.digest
batch = next(iter(batches(base, docs, tokens=4096, length=512, batch_rows=2048)))
with torch.no_grad(): base.model.base_model(input_ids=batch.ids, use_cache=False)
before = anonymous()
with tempfile.TemporaryDirectory() as folder:
    gm.collect(base, docs, {JOBS[job]}, tokens={tokens}, mode={mode!r}, out=folder + "/m",
               memory={None if mode == "stream" else budget}, length=512, batch_rows=2048)
print(json.dumps(anonymous() - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


def measure(job: str, tokens: int, repeats: int, *, memory: bool) -> dict[str, Any]:
    base = gm.open("bundled:smollm2")
    docs = gm.documents("bundled:pydocs")
    needs = gm.lens.needs(base) if job == "lens" else linears(base)
    whole = plan_passes(base, needs, None).bytes
    budget = whole // 4
    base.digest  # noqa: B018  hashed once per checkpoint, not once per collection
    seconds(base, docs, needs, 4096, "stream", budget)  # warm-up
    rounds = [
        {mode: seconds(base, docs, needs, tokens, mode, budget) for mode in MODES}
        for _ in range(repeats)
    ]
    result: dict[str, Any] = {"job": job, "tokens": tokens, "threads": torch.get_num_threads()}
    result |= {"one_pass_bytes": whole, "budget_bytes": budget}
    for mode in MODES:
        ratios = [round_[mode] / round_["stream"] for round_ in rounds]
        plan = plan_passes(
            base, needs, None if mode == "stream" else budget, mode=mode, tokens=tokens
        )
        result[mode] = {
            "seconds": median(round_[mode] for round_ in rounds),
            "ratio": median(ratios),
            "ratios": [round(ratio, 3) for ratio in ratios],
            "forwards": plan.forwards,
            "statistics_bytes": plan.bytes,
            "disk_bytes": plan.disk,
        }
        if memory:
            result[mode]["peak_bytes"] = peak(job, tokens, mode, budget)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--job", choices=sorted(JOBS), default="lens")
    parser.add_argument("--no-peak", action="store_true", help="leave peak memory out")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(
        arguments.job, arguments.tokens, arguments.repeats, memory=not arguments.no_peak
    )
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(
        f"{result['job']}, {result['tokens']:,} tokens, {result['threads']} threads; one pass "
        f"{result['one_pass_bytes'] / 1e9:.2f} GB, budget {result['budget_bytes'] / 1e9:.2f} GB"
    )
    print(f"{'mode':10} {'seconds':>8} {'ratio':>6} {'forwards':>8} {'disk GB':>8} {'peak GB':>8}")
    for mode in MODES:
        row = result[mode]
        peaked = f"{row['peak_bytes'] / 1e9:8.2f}" if "peak_bytes" in row else f"{'':8}"
        print(
            f"{mode:10} {row['seconds']:8.1f} {row['ratio']:6.2f} {row['forwards']:8d} "
            f"{row['disk_bytes'] / 1e9:8.2f} {peaked}"
        )


if __name__ == "__main__":
    main()
