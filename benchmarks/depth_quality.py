"""Perplexity of SmolLM2-135M with blocks removed, by what takes their place.

    python benchmarks/depth_quality.py VALID.txt TEST.txt [--tokens 16384] [--remove 1,2,3,5]

The cut is the one that `gramian compress depth` chooses; all but LaCo remove the same blocks:
dropped, least squares (ReplaceMe), the ridge towards the identity chosen on `select`, rows weighted
by one over their squared length, greatest mean cosine. LaCo folds blocks by weights alone and
chooses its own. Moments and raw rows of VALID are collected once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import gramian as gm
from gramian.compress import depth
from gramian.evaluate import perplexity
from gramian.networks.building import built
from gramian.networks.draft import Draft

METHODS: dict[str, dict[str, Any]] = {
    "dropped": {"method": "drop"},
    "least squares": {"ridge": 0.0},
    "ridge chosen": {},
    "weighted": {"objective": "weighted"},
    "cosine": {"objective": "cosine"},
    "laco": {"method": "laco"},
}


def measure(valid: Path, test: Path, tokens: int, removed: list[int]) -> list[dict[str, Any]]:
    base = gm.open("bundled:smollm2")
    docs = gm.documents(str(valid))
    needs = depth.needs(base, max_remove=max(removed), linearity=False)
    moments = gm.collect(base, docs, needs, tokens=tokens, reservoir=tokens)
    text = test.read_text(encoding="utf-8")
    ids = torch.tensor(base.tokenizer(text, add_special_tokens=False)["input_ids"])
    records = []
    for remove in removed:
        for name, options in METHODS.items():
            more = {"docs": docs} if name == "laco" else {}
            plan = depth.plan(base, moments, remove=remove, **options, **more)
            draft = Draft.of(base)
            for move in plan.moves:
                draft = move.rewrite(draft)
            model = built(draft, draft.computed(), base.device)
            records.append(
                {
                    "removed": remove,
                    "layers": [entry["layer"] for entry in plan.evidence["layers"]],
                    "method": name,
                    "error_report": plan.evidence["layers"][0]["error_report"],
                    "perplexity": perplexity(model, ids, windows=16).perplexity,
                }
            )
            print(records[-1], flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("valid", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--remove", default="1,2,3,5")
    parser.add_argument("--json", type=Path, help="Write the records here.")
    given = parser.parse_args()
    removed = [int(part) for part in given.remove.split(",")]
    records = measure(given.valid, given.test, given.tokens, removed)
    if given.json:
        given.json.write_text(json.dumps(records, indent=2) + "\n")
    print(f"{'removed':>8} " + " ".join(f"{name:>14}" for name in METHODS))
    for remove in removed:
        found = {one["method"]: one for one in records if one["removed"] == remove}
        print(f"{remove:8} " + " ".join(f"{found[n]['perplexity']:14.2f}" for n in METHODS))


if __name__ == "__main__":
    main()
