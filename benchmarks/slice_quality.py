"""Perplexity of SmolLM2-135M with a narrower residual stream, beside naive ways to narrow it.

    python benchmarks/slice_quality.py VALID.txt TEST.txt [--moments FOLDER] [--widths 513,459]
        [--windows 16] [--only TEXT] [--json]

16,000 tokens of VALID; perplexity on the first windows of 512 tokens of TEST. Sliced networks are
built in memory and are those that would be written, but for the per-site one, which is simulated.
Rows: one basis for all places (with other weights of the sink rows), a random basis, the
coordinates of largest variance without any rotation, a basis for every place; and the line through
the measured points of the first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import gramian as gm
from gramian.compress import slicing
from gramian.compress.slicing.bases import FIT, discarded
from gramian.evaluate import perplexity
from gramian.maps import Dense
from gramian.networks import Move
from gramian.networks.building import built
from gramian.networks.draft import Draft

WEIGHTS = (1.0, 0.0, 0.1, 10.0)


@dataclass(frozen=True)
class Text:
    """What perplexity is taken on."""

    ids: Tensor
    windows: int

    def perplexity(self, model: torch.nn.Module) -> float:
        return perplexity(model, self.ids, windows=self.windows).perplexity


@dataclass(frozen=True)
class Bench:
    base: Any
    moments: gm.MomentSet
    sites: tuple[str, ...]
    text: Text

    def rows(self, kind: str, width: int) -> Tensor:
        """Orthonormal rows (width, d)."""
        d = self.base.blueprint.width
        if kind.startswith("shared"):
            weight = float(kind.partition(" ")[2] or 1.0)
            basis = slicing.shared_basis(self.base, self.moments, self.sites, sink_weight=weight)
            return basis.rows[:width].clone()
        if kind == "random":
            draw = torch.randn(d, d, generator=torch.manual_seed(0), dtype=torch.float64)
            random: Tensor = torch.linalg.qr(draw).Q[:width]
            return random
        variances = [self.moments.moments(site, FIT).variances for site in self.sites]
        share = sum(one / one.sum() for one in variances)
        assert isinstance(share, Tensor)
        kept = share.argsort(descending=True)[:width].sort().values
        return torch.eye(d, dtype=torch.float64)[kept]

    def narrowed(self, kind: str, width: int) -> dict[str, Any]:
        draft = Draft.of(self.base)
        # Coordinates as they are need no norm folded, and keep the tied head.
        norms = () if kind == "coordinates" else self.base.blueprint.stream_norms()
        rows = self.rows(kind, width)
        moves: list[Move] = [gm.FoldNorm(norm.name) for norm in norms]
        for move in (*moves, gm.Narrow(Dense(rows))):
            draft = move.rewrite(draft)
        tensors = draft.computed()
        count = sum(tensor.numel() for tensor in tensors.values())
        model = built(draft, tensors, self.base.device)
        lost = [discarded(self.moments, site, rows, mean_free=False) for site in self.sites]
        return self.row(kind, width, count, self.text.perplexity(model), lost)

    def per_site(self, width: int) -> dict[str, Any]:
        with slicing.simulated(self.base, self.moments, width) as simulation:
            found = self.text.perplexity(self.base.model)
        draft = Draft.of(self.base)
        table = slicing.size_table(draft, width, before=1)
        sizes = {(one.rotation, one.head): one.parameters for one in table}
        count = sizes["per-site", "untied"]
        return self.row("per site", width, count, found, simulation.discarded)

    def row(self, kind: str, width: int, count: int, found: float, lost: Any) -> dict[str, Any]:
        sinks = [one.sinks_report for one in lost if one.sinks_report is not None]
        return {
            "basis": kind,
            "width": width,
            "parameters": count,
            "perplexity": found,
            "discarded_report": sum(one.report for one in lost) / max(1, len(lost)),
            "discarded_sinks": sum(sinks) / len(sinks) if sinks else None,
        }


def measure(bench: Bench, widths: list[int], only: str) -> Iterator[dict[str, Any]]:
    kinds: dict[str, Callable[[int], dict[str, Any]]] = {}
    for kind in (*(f"shared {weight:g}" for weight in WEIGHTS), "random", "coordinates"):
        kinds[kind] = partial(bench.narrowed, kind)
    kinds["per site"] = bench.per_site
    if only in "dense":
        model = bench.base.model
        count = sum(parameter.numel() for parameter in model.parameters())
        yield bench.row(
            "dense", bench.base.blueprint.width, count, bench.text.perplexity(model), []
        )
    for kind, run in kinds.items():
        for width in widths:
            if only in kind:
                yield run(width)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("valid", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--moments", type=Path)
    parser.add_argument("--widths", default="513,459")
    parser.add_argument("--windows", type=int, default=16)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    base = gm.open("bundled:smollm2")
    if given.moments is None:
        docs = gm.documents(str(given.valid))
        moments = gm.collect(base, docs, slicing.needs(base), tokens=16_000, length=512)
    else:
        moments = gm.MomentSet.open(given.moments)
    ids = torch.tensor(base.tokenizer(given.test.read_text(encoding="utf-8"))["input_ids"])
    bench = Bench(base, moments, slicing.stream_sites(base), Text(ids, given.windows))
    found = []
    for row in measure(bench, [int(w) for w in given.widths.split(",")], given.only):
        found.append(row)
        if not given.json:
            values = (f"{key} {value}" for key, value in row.items() if value is not None)
            print(" | ".join(values), flush=True)
    points = [row for row in found if row["basis"] == "shared 1"]
    fit = None
    dense = [row for row in found if row["basis"] == "dense"]
    if dense and points:
        pairs = [(0.0, dense[0]["perplexity"])]
        pairs += [(row["discarded_report"], row["perplexity"]) for row in points]
        line = slicing.fit_quality(*zip(*pairs, strict=True))
        fit = {"intercept": line.intercept, "slope": line.slope, "error": line.error}
    print(json.dumps({"rows": found, "fit": fit}, indent=2) if given.json else f"fit: {fit}")


if __name__ == "__main__":
    main()
