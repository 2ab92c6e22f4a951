"""Perplexity of SmolLM2-135M at lower ranks: metrics, allocations and sizes, from one collection.

    python benchmarks/rank_quality.py VALID.txt TEST.txt [--only TEXT] [--json]

All linears of all blocks from 16,000 tokens of VALID; perplexity on the first 16 windows of 512
tokens of TEST. Factors are multiplied out in memory, which changes nothing but the size. Seconds
are those of solving all linears, from moments that are there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import gramian as gm
from gramian.compress import rank
from gramian.evaluate import perplexity
from gramian.networks.building import built
from gramian.networks.draft import Draft

SIZES = (0.9, 0.8, 0.6)
SOLUTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "plain SVD": ({"metric": "none"}, ("uniform",)),
    "ASVD": ({"metric": "diag"}, ("uniform",)),
    "full": ({}, ("uniform", "greedy", "energy", "threshold", "greedy by type")),
    "full, centred": ({"centred": True}, ("uniform", "greedy")),
    "full, shrunk by 0.1": ({"shrink": 0.1}, ("greedy",)),
}


def planned(base: Any, plan: Any) -> torch.nn.Module:
    """The network that a plan describes, in memory."""
    draft = Draft.of(base)
    for move in plan.moves:
        draft = move.rewrite(draft)
    return built(draft, draft.computed(), base.device)


def measure(valid: Path, test: Path, only: str) -> Iterator[dict[str, Any]]:
    base = gm.open("bundled:smollm2")
    moments = gm.collect(
        base, gm.documents(str(valid)), rank.needs(base), tokens=16_000, length=512
    )
    text = test.read_text(encoding="utf-8")
    ids = torch.tensor(base.tokenizer(text, add_special_tokens=False)["input_ids"])

    def judged(model: torch.nn.Module) -> float:
        return perplexity(model, ids, length=512, windows=16).perplexity

    yield {"metric": "dense", "perplexity": judged(base.model)}
    for name, (options, rules) in SOLUTIONS.items():
        if only not in name:
            continue
        started = time.perf_counter()
        solved = rank.solve(base, moments, **options)
        seconds = time.perf_counter() - started
        for rule in rules:
            allocate, _, by_type = rule.partition(" by ")
            for keep in SIZES:
                plan = rank.plan_solved(
                    base,
                    solved,
                    keep=keep,
                    allocate=allocate,  # type: ignore[arg-type]
                    by_type=bool(by_type),
                    dense=True,
                )
                ranks = plan.evidence["ranks"].values()
                yield {
                    "metric": name,
                    "allocate": rule,
                    "keep": keep,
                    "whole": sum(one is None for one in ranks),
                    "perplexity": judged(planned(base, plan)),
                    "seconds": round(seconds, 1),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("valid", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--only", default="", help="Metrics whose name holds this text.")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = []
    for row in measure(args.valid, args.test, args.only):
        found.append(row)
        if not args.json:
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if args.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
