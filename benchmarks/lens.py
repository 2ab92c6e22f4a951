"""How well casts agree with the full network, by passage, ridge and intercept, on SmolLM2-135M.

    python benchmarks/lens.py VALID.txt TEST.txt [--tokens 16384] [--json]

Casts are fitted on VALID and judged on three passages of TEST: its first eight windows of 512
tokens, windows 0-3 with 60-63, and windows 100-107 (the whole file tokenized at once). The identity
column holds no fit, so it shows how far two passages differ by themselves.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import gramian as gm
from gramian.data import Batch

LENGTH = 512
PASSAGES = {
    "windows 0-7": tuple(range(8)),
    "windows 0-3, 60-63": (0, 1, 2, 3, 60, 61, 62, 63),
    "windows 100-107": tuple(range(100, 108)),
}
SOLUTIONS: dict[str, dict[str, Any]] = {
    "ridge": {},
    "least squares": {"lambdas": (0.0,)},
    "no intercept": {"kind": "linear"},
}
LAYERS = (0, 1, 12, 13, 24, 25, 27, 28)


def batches(ids: torch.Tensor, chosen: tuple[int, ...]) -> list[Batch]:
    """The windows as batches of four."""
    windows = torch.stack([ids[LENGTH * i : LENGTH * (i + 1)] for i in chosen])
    nowhere = torch.full_like(windows, -1)
    return [
        Batch(rows, torch.ones_like(rows, dtype=torch.bool), "report", none, none, ())
        for rows, none in zip(windows.split(4), nowhere.split(4), strict=True)
    ]


def read_layers(base: Any, moments: Any, **more: Any) -> gm.lens.Casts:
    """The casts of the layers to be judged; decoding all of them takes four times as long."""
    casts = gm.lens.solve(base, moments, **more)
    return replace(casts, casts=tuple(casts[f"{layer}.resid_pre"] for layer in LAYERS))


def measure(valid: Path, test: Path, tokens: int) -> list[dict[str, Any]]:
    base = gm.open("bundled:smollm2")
    moments = gm.collect(
        base, gm.documents(str(valid)), gm.lens.needs(base), tokens=tokens, length=LENGTH
    )
    text = test.read_text(encoding="utf-8")
    ids = torch.tensor(base.tokenizer(text, add_special_tokens=False)["input_ids"])
    solved = {name: read_layers(base, moments, **more) for name, more in SOLUTIONS.items()}
    records = []
    for passage, chosen in PASSAGES.items():
        found = {
            name: gm.lens.judge(base, casts, batches(ids, chosen), rule=moments.recipe.rows)
            for name, casts in solved.items()
        }
        for i, layer in enumerate(LAYERS):
            scores = {name: judgement.layers[i] for name, judgement in found.items()}
            records.append(
                {
                    "passage": passage,
                    "input_of": layer,
                    "identity": scores["ridge"].agreement_identity,
                    **{name: score.agreement for name, score in scores.items()},
                }
            )
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("valid", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    records = measure(arguments.valid, arguments.test, arguments.tokens)
    if arguments.json:
        print(json.dumps(records, indent=2))
        return
    print(
        f"{'passage':20} {'input of':>8} {'identity':>9} " + " ".join(f"{s:>13}" for s in SOLUTIONS)
    )
    for record in records:
        print(
            f"{record['passage']:20} {record['input_of']:8} {record['identity']:9.3f} "
            + " ".join(f"{record[name]:13.3f}" for name in SOLUTIONS)
        )


if __name__ == "__main__":
    main()
