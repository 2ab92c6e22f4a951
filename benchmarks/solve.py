"""Solving every cast of SmolLM2-135M from moments, with lambda chosen on held-out documents.

    python benchmarks/solve.py [--json]

Solves all casts to the last and to the next layer from moments of a few and of many tokens: the
time must not depend on the rows. scikit-learn's least squares on the rows themselves, for one
cast, runs beside it.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch

import gramian as gm
from gramian.networks import Need, Needs, capture
from gramian.networks.collect import batches


def timed(base: Any, moments: Any, target: str) -> float:
    started = time.perf_counter()
    gm.lens.solve(base, moments, target=target)
    return time.perf_counter() - started


def peer(base: Any, docs: Any, tokens: int, site: str) -> float | None:
    """Seconds of scikit-learn's LinearRegression on stored rows, one cast."""
    try:
        from sklearn.linear_model import LinearRegression
    except ImportError:
        return None
    kept: dict[str, list[torch.Tensor]] = {site: [], "final": []}
    for batch in batches(base, docs, tokens=tokens, length=512):
        rows = capture(base.model, base.blueprint, kept, batch.ids, batch.mask).rows
        for name, parts in kept.items():
            parts.append(rows[name][batch.mask])
    x, y = (torch.cat(parts).double().numpy() for parts in kept.values())
    started = time.perf_counter()
    LinearRegression().fit(x, y)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    base = gm.open("bundled:smollm2")
    docs = gm.documents("bundled:pydocs")
    needs = gm.lens.needs(base)
    result: dict[str, Any] = {}
    for tokens in (8_192, 32_768):
        moments = gm.collect(base, docs, needs, tokens=tokens)
        for target in ("last", "next", "attn", "mlp"):
            timed(base, moments, target)
            result[f"{target}_seconds_at_{tokens}"] = timed(base, moments, target)
    site = "12.resid_pre"
    ours = gm.collect(base, docs, Needs.of([Need(site, "final", increment=True)]), tokens=32_768)
    folds = [ours.joint(site, "final", fold, increment=True) for fold in gm.moments.FOLDS]
    started = time.perf_counter()
    gm.solvers.ridge(*folds)
    result["one_cast_seconds"] = time.perf_counter() - started
    result["one_cast_sklearn_seconds"] = peer(base, docs, 32_768, site)
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        print(f"{name:32} {value:.3f}" if isinstance(value, float) else f"{name:32} {value}")


if __name__ == "__main__":
    main()
