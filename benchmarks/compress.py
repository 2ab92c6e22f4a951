"""Compression beside the published steps of its methods, on the same tokens in one run.

    python benchmarks/compress.py [rank] [depth] --data VALID.txt --eval TEST.txt [--tokens 16k]

rank: all linears of SmolLM2-135M at five sizes: ours (moments collected once, every linear solved
once, one plan for each size) and the published steps of SVD-LLM (`svdllm_transcription.py`: sums
collected once, every linear decomposed for each size). Seconds of collecting and of solving, and
perplexity on the first 16 windows of 512 tokens of TEST; factors are multiplied out to be judged,
which is not timed. Ours is measured with its default allocation and with SVD-LLM's.

depth: 1, 2, 3, 5 and 8 blocks removed: ours (moments collected once, a cut chosen and a map solved
for each size), the same blocks dropped, and the published steps of ReplaceMe
(`replaceme_transcription.py`: for each size a pass that chooses and a pass that fits).

Each part is a function of `Setting` that returns rows of a table and summary figures, and is
entered in `PARTS`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import gramian as gm
from gramian.evaluate import perplexity
from gramian.networks.building import built
from gramian.networks.draft import Draft

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Setting:
    """What all parts share: the model, the text, and how a network is judged."""

    data: Path
    eval: Path
    tokens: int
    windows: int
    length: int = 512

    @cached_property
    def base(self) -> Any:
        return gm.open("bundled:smollm2")

    @cached_property
    def calibration(self) -> Tensor:
        """(windows, length): the tokens that both sides are given."""
        from gramian.data import Packing

        docs = gm.documents(str(self.data))
        packed = Packing(
            docs, self.base.tokenizer, rows=2048, tokens=self.tokens, length=self.length
        )
        return torch.cat([batch.ids[batch.mask.all(1)] for batch in packed])

    @cached_property
    def held_out(self) -> Tensor:
        text = self.eval.read_text(encoding="utf-8")
        return torch.tensor(self.base.tokenizer(text, add_special_tokens=False)["input_ids"])

    def collected(self, needs: Any) -> Any:
        docs = gm.documents(str(self.data))
        return gm.collect(self.base, docs, needs, tokens=self.tokens, length=self.length)

    def judged(self, model: nn.Module) -> float:
        return perplexity(model, self.held_out, length=self.length, windows=self.windows).perplexity

    def planned(self, plan: Any) -> float:
        """Perplexity of what a plan describes, made in memory."""
        draft = Draft.of(self.base)
        for move in plan.moves:
            draft = move.rewrite(draft)
        return self.judged(built(draft, draft.computed(), self.base.device))


class Clock:
    """Seconds by name, added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


RANK_SIZES = (0.9, 0.8, 0.7, 0.6, 0.5)


def rank(setting: Setting) -> tuple[Rows, dict[str, float]]:
    if __package__:
        from benchmarks import svdllm_transcription as svdllm
    else:
        import svdllm_transcription as svdllm  # type: ignore[no-redef]

    from gramian.compress import rank as room

    base, clock = setting.base, Clock()
    base.digest, setting.calibration, setting.held_out  # noqa: B018  read before any clock runs
    with clock("ours, collecting"):
        moments = setting.collected(room.needs(base))
    with clock("ours, solving"):
        solved = room.solve(base, moments)
    names = [one.linear.matrix.weight.removesuffix(".weight") for one in solved.linears]
    with clock("published steps, collecting"):
        lowers = svdllm.profile(base.model, names, setting.calibration.split(4))
    rows: Rows = []
    for keep in RANK_SIZES:
        row: dict[str, Any] = {"keep": keep}
        for allocate in ("greedy", "uniform"):
            with clock("ours, solving"):
                plan = room.plan_solved(base, solved, keep=keep, allocate=allocate, dense=True)
            row[f"ours, {allocate}"] = setting.planned(plan)
        with clock("published steps, solving"):
            factors = svdllm.truncate(base.model, lowers, keep)
        row["published steps"] = setting.judged(with_factors(base, factors))
        row["ours over published steps"] = row["ours, greedy"] / row["published steps"]
        rows.append(row)
    ours, theirs = (
        sum(seconds for name, seconds in clock.seconds.items() if name.startswith(side))
        for side in ("ours", "published")
    )
    return rows, clock.seconds | {"published steps over ours, seconds in all": theirs / ours}


def with_factors(base: Any, factors: dict[str, tuple[Tensor, Tensor]]) -> nn.Module:
    """A copy of the network with the factors multiplied out."""
    draft = Draft.of(base)
    tensors = draft.computed()
    tensors |= {f"{name}.weight": up @ down for name, (up, down) in factors.items()}
    return built(draft, tensors, base.device)


DEPTH_SIZES = (1, 2, 3, 5, 8)


def depth(setting: Setting) -> tuple[Rows, dict[str, float]]:
    """Blocks removed and replaced by a linear map: ours, dropping them, the published steps."""
    if __package__:
        from benchmarks import replaceme_transcription as replaceme
    else:
        import replaceme_transcription as replaceme  # type: ignore[no-redef]

    from gramian.compress import depth as room

    base, clock = setting.base, Clock()
    base.digest, setting.calibration, setting.held_out  # noqa: B018  read before any clock runs
    with clock("ours, collecting"):
        needs = room.needs(base, max_remove=max(DEPTH_SIZES), linearity=False)
        moments = setting.collected(needs)
    rows: Rows = []
    for remove in DEPTH_SIZES:
        with clock("ours, solving"):
            plan = room.plan(base, moments, remove=remove)
        dropped = room.plan(base, moments, remove=remove, method="drop")
        row: dict[str, Any] = {"removed": remove, "ours": setting.planned(plan)}
        row["dropped"] = setting.planned(dropped)
        windows = setting.calibration.split(4)
        with clock("published steps, collecting"):
            block = replaceme.choose(base.model, windows, remove)
        with clock("published steps, solving"):
            step = replaceme.solve(base.model, windows, block, remove)
        draft = Draft.of(base)
        changed = replaceme.removed(base.model, block, remove, step)
        draft = draft.with_tensors({name: (lambda t=t: t) for name, t in changed.items()})
        draft = gm.DropLayers(tuple(range(block + 1, block + 1 + remove))).rewrite(draft)
        row["published steps"] = setting.judged(built(draft, draft.computed(), base.device))
        row["ours over published steps"] = row["ours"] / row["published steps"]
        rows.append(row)
    ours, theirs = (
        sum(seconds for name, seconds in clock.seconds.items() if name.startswith(side))
        for side in ("ours", "published")
    )
    return rows, clock.seconds | {"published steps over ours, seconds in all": theirs / ours}


PARTS: dict[str, Callable[[Setting], tuple[Rows, dict[str, float]]]] = {
    "rank": rank,
    "depth": depth,
}


def show(part: str, rows: Rows, figures: dict[str, float]) -> None:
    print(f"\n{part}")
    for row in rows:
        print("  " + "  ".join(f"{key}: {value:.4g}" for key, value in row.items()))
    for name, value in figures.items():
        print(f"  {name}: {value:.2f}")


def number(text: str) -> int:
    """Read ``16k``."""
    return int(float(text[:-1]) * 1000) if text.endswith("k") else int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--data", type=Path, required=True, help="Text to calibrate on.")
    parser.add_argument("--eval", type=Path, required=True, help="Text to judge on.")
    parser.add_argument("--tokens", type=number, default=16_000)
    parser.add_argument("--windows", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    setting = Setting(given.data, given.eval, given.tokens, given.windows)
    document: dict[str, Any] = {}
    for part in given.parts:
        if part not in PARTS:
            parser.error(f"unknown part {part!r}; expected {', '.join(PARTS)}")
        rows, figures = PARTS[part](setting)
        document[part] = {"rows": rows, "figures": figures}
        if not given.json:
            show(part, rows, figures)
    if given.json:
        print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
