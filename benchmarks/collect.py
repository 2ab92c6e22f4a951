"""What collecting costs beside the forward pass it rides on, on SmolLM2-135M.

    python benchmarks/collect.py [--tokens 16384] [--json]

In one run: the plain forward pass, collecting for the lens, collecting the input of every linear
layer, and concept-erasure's accumulation of the same residual sites. A symmetric product counts as
n d^2 operations. `over_predicted` is measured time / (forward time x ratio of operations): 1.0
means that statistics run at the speed of the forward pass's own matrix products.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

import gramian as gm
from gramian.networks.collect import batches
from gramian.networks.needs import linears

SETTINGS = {"length": 512, "batch_rows": 2048}


def attention_operations(base: Any, length: int) -> int:
    """Operations per token of scores and weighted values: half the window on average, since the
    causal kernel skips the blocks above the diagonal."""
    layer = base.blueprint.layers[0]
    return 4 * (length // 2) * layer.taps["z"].width * base.blueprint.depth


def seconds(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def forward(base: Any, docs: Any, tokens: int) -> None:
    with torch.no_grad():
        for batch in batches(base, docs, tokens=tokens, **SETTINGS):
            base.model.base_model(input_ids=batch.ids, use_cache=False)


def concept_erasure(base: Any, docs: Any, tokens: int) -> float | None:
    """The peer's accumulation of every residual site (statistics only, seconds), or None."""
    try:
        from concept_erasure import LeaceFitter
    except ImportError:
        return None
    sites = base.blueprint.residual_sites()
    width = base.blueprint.width
    fitters = {site: LeaceFitter(width, 1, dtype=torch.float32) for site in sites}
    spent = 0.0
    for batch in batches(base, docs, tokens=tokens, **SETTINGS):
        rows = gm.networks.capture(base.model, base.blueprint, sites, batch.ids, batch.mask).rows
        label = torch.zeros(int(batch.mask.sum()), 1)
        started = time.perf_counter()
        for site, fitter in fitters.items():
            fitter.update(rows[site][batch.mask], label)
        spent += time.perf_counter() - started
    return spent


def our_residual(base: Any, docs: Any, tokens: int) -> float:
    """Our accumulation of the same sites (statistics only, seconds)."""
    sites = {site: base.blueprint.width for site in base.blueprint.residual_sites()}
    sums = gm.moments.Accumulator(sites)
    spent = 0.0
    for batch in batches(base, docs, tokens=tokens, **SETTINGS):
        rows = gm.networks.capture(base.model, base.blueprint, sites, batch.ids, batch.mask).rows
        started = time.perf_counter()
        sums.update({site: x[batch.mask] for site, x in rows.items()})
        spent += time.perf_counter() - started
    return spent


def peak_memory(tokens: int, purpose: str) -> dict[str, int]:
    """Peak resident bytes of a fresh process: the model after one batch, then the collection."""
    code = (
        "import json, pathlib, torch, gramian as gm\n"
        "from gramian.networks.collect import batches\n"
        "from gramian.networks.needs import linears\n"
        "base = gm.open('bundled:smollm2'); docs = gm.documents(['word ' * 600] * 40)\n"
        # Not getrusage: its peak is inherited from the parent.
        "status = pathlib.Path('/proc/self/status')\n"
        "peak = lambda: int(status.read_text().split('VmHWM:')[1].split()[0]) * 1024\n"
        "base.digest\n"
        f"batch = next(iter(batches(base, gm.documents({texts(tokens)}), length=512)))\n"
        "with torch.no_grad(): base.model.base_model(input_ids=batch.ids, use_cache=False)\n"
        "before = peak()\n"
        f"needs = gm.lens.needs(base) if {purpose!r} == 'lens' else linears(base)\n"
        f"gm.collect(base, gm.documents({texts(tokens)}), needs, tokens={tokens}, out=None"
        ", length=512)\n"
        "print(json.dumps({'model_and_batch': before, 'collecting': peak()}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def texts(tokens: int) -> str:
    """An expression for enough different documents, made without any file."""
    count = tokens // 300 + 40
    words = "str((i * 7919 + j * 104729) % 9973) for j in range(400)"
    return f"[' '.join({words}) for i in range({count})]"


def predicted(base: Any, needs: gm.Needs) -> float:
    """Ratio of operations: (forward pass + statistics) / forward pass."""
    cost = needs.cost(base)
    operations = cost.forward_operations + attention_operations(base, SETTINGS["length"])
    return (operations + cost.operations) / operations


def measure(tokens: int, repeats: int) -> dict[str, Any]:
    """Forward pass and both collections in turn, `repeats` rounds: a slow minute of the machine
    then slows what is compared alike. Ratios are taken within a round, their median reported."""
    base = gm.open("bundled:smollm2")
    docs = gm.documents("bundled:pydocs")
    jobs = {"lens": gm.lens.needs(base), "linears": linears(base)}
    forward(base, docs, 2048 * 10)  # warm-up
    base.digest  # noqa: B018  hashed once per checkpoint, not once per collection
    plain: list[float] = []
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        plain.append(seconds(lambda: forward(base, docs, tokens)))
        for name, needs in jobs.items():
            taken[name].append(
                seconds(
                    lambda needs=needs: gm.collect(base, docs, needs, tokens=tokens, **SETTINGS)
                )
            )
    result: dict[str, Any] = {"tokens": tokens, "threads": torch.get_num_threads()}
    result["forward_seconds"] = median(plain)
    for name, needs in jobs.items():
        ratio = predicted(base, needs)
        rounds = [t / (f * ratio) for t, f in zip(taken[name], plain, strict=True)]
        result[f"{name}_seconds"] = median(taken[name])
        result[f"{name}_operations_ratio"] = ratio
        result[f"{name}_over_predicted"] = median(rounds)
        result[f"{name}_over_predicted_rounds"] = [round(value, 3) for value in rounds]
    result["residual_gram_seconds"] = our_residual(base, docs, tokens)
    result["concept_erasure_gram_seconds"] = concept_erasure(base, docs, tokens)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="also peak memory at 1 x and 10 x")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.tokens, arguments.repeats)
    if arguments.memory:
        result["peak_bytes"] = peak_memory(arguments.tokens, "linears")
        result["peak_bytes_10x"] = peak_memory(10 * arguments.tokens, "linears")
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        print(f"{name:32} {value:.3f}" if isinstance(value, float) else f"{name:32} {value}")


if __name__ == "__main__":
    main()
