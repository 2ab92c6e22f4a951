"""Rows, recipes and small moments sets for the tests of the folder format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gramian.moments.accumulator import Pair
from gramian.moments.folds import FOLDS
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments
from gramian.moments.momentset import MomentSet
from gramian.moments.recipe import Partner, Recipe, RowRule
from gramian.moments.writer import MomentSetWriter

RECIPE = Recipe(
    model="bundled:small",
    weights="ab" * 32,
    tensors={"embed": "00" * 8, "head": "11" * 8},
    tokenizer="cd" * 32,
    template="none",
    length=128,
    bos=True,
    rows=RowRule(thresholds={"0.resid_pre": 12.5}),
)
PARTNER = Partner(
    model="bundled:other",
    weights="ef" * 32,
    tensors={"embed": "22" * 8},
    tokenizer="98" * 32,
    template="none",
    bos=False,
    rows=RowRule(thresholds={"0.resid_pre": 3.5}),
    align="characters",
)
SITE_FILE = "site.0.resid_pre.safetensors"
Index = dict[str, Any]
PLAIN = Pair("0.resid_pre", "1.mlp_out")
INCREMENT = Pair("0.resid_pre", "1.resid_pre", increment=True)
WIDTHS = {"0.resid_pre": 6, "1.resid_pre": 6, "1.mlp_out": 4}


@dataclass
class Data:
    """Rows by fold and site: ordinary ones, dense sinks, thin sinks; and document digests."""

    rows: dict[str, dict[str, Tensor]]
    dense: dict[str, dict[str, Tensor]]
    thin: dict[str, dict[str, Tensor]]
    documents: dict[str, list[str]]

    def all_rows(self, site: str, *folds: str, sinks: bool = False) -> Tensor:
        blocks = (self.rows, self.dense, self.thin) if sinks else (self.rows,)
        return torch.cat([block[fold][site] for fold in folds for block in blocks])

    def __add__(self, other: Data) -> Data:
        def join(a: dict[str, dict[str, Tensor]], b: dict[str, dict[str, Tensor]]) -> dict:
            return {f: {s: torch.cat([a[f][s], b[f][s]]) for s in a[f]} for f in a}

        documents = {f: self.documents[f] + other.documents[f] for f in self.documents}
        return Data(
            join(self.rows, other.rows),
            join(self.dense, other.dense),
            join(self.thin, other.thin),
            documents,
        )


def make_data(seed: int, n: int = 40) -> Data:
    """Correlated float64 rows with a mean away from zero; a residual stream and a branch."""
    generator = torch.Generator().manual_seed(seed)

    def block(count: int, scale: float) -> dict[str, Tensor]:
        x = scale * torch.randn(count, 6, generator=generator, dtype=torch.float64) + 3.0
        step = 0.1 * torch.randn(count, 6, generator=generator, dtype=torch.float64)
        return {"0.resid_pre": x, "1.resid_pre": x + step, "1.mlp_out": x[:, :4] * step[:, :4]}

    digests = {
        f: [hashlib.sha256(f"{f}{seed}{i}".encode()).hexdigest() for i in (0, 1)] for f in FOLDS
    }
    return Data(
        {fold: block(n + i, 1.0) for i, fold in enumerate(FOLDS)},
        {fold: block(5, 50.0) for fold in FOLDS},
        {fold: block(3, 50.0) for fold in FOLDS},
        digests,
    )


def put(writer: MomentSetWriter, data: Data, folds: tuple[str, ...] = FOLDS) -> None:
    """Write all sites and pairs of the data."""
    for fold in folds:
        for site in WIDTHS:
            order = "diagonal" if site == "1.resid_pre" else "full"
            writer.put_site(
                site,
                fold,
                Moments.from_rows(data.rows[fold][site], order=order),
                (
                    Moments.from_rows(data.dense[fold][site], order=order),
                    data.thin[fold][site],
                ),
            )
        for pair in (PLAIN, INCREMENT):
            writer.put_pair(pair, fold, joint(data.rows[fold], pair), joint(data.dense[fold], pair))


def joint(rows: dict[str, Tensor], pair: Pair) -> JointMoments:
    """The joint moments of a pair from its rows."""
    x, y = rows[pair.x], rows[pair.y]
    return JointMoments.from_rows(x, y - x if pair.increment else y)


def write_set(path: Path | None, data: Data, recipe: Recipe = RECIPE, **options: str) -> MomentSet:
    """A finished set of the data."""
    with MomentSetWriter(path, recipe, **options) as writer:  # type: ignore[arg-type]
        put(writer, data)
        return writer.finish(documents=data.documents)


def assert_same(a: Moments | JointMoments, b: Moments | JointMoments, rtol: float = 1e-12) -> None:
    """Equal counts, means, scatters and quartic sums, relative to the largest number in each."""
    if isinstance(a, JointMoments):
        assert isinstance(b, JointMoments)
        assert_same(a.x, b.x, rtol)
        assert_same(a.y, b.y, rtol)
        numbers = [(a.cross, b.cross)]
        if b.quartic is not None:
            assert a.quartic is not None
            numbers += [(a.quartic.xy, b.quartic.xy), (a.quartic.yx, b.quartic.yx)]
            numbers += [(torch.tensor(a.quartic.product), torch.tensor(b.quartic.product))]
    else:
        assert isinstance(b, Moments)
        assert (a.count, a.count2) == (b.count, b.count2)
        numbers = [(a.mean, b.mean), (a.scatter, b.scatter)]
        if b.quartic is not None:
            assert a.quartic is not None
            numbers += [(a.quartic.vector, b.quartic.vector)]
            numbers += [(torch.tensor(a.quartic.square), torch.tensor(b.quartic.square))]
    for mine, theirs in numbers:
        assert mine.shape == theirs.shape
        largest = float(theirs.abs().max()) or 1.0
        assert float((mine - theirs).abs().max()) <= rtol * largest


def rewrite(folder: Path, change: Callable[[Index], object]) -> None:
    """Change the index as someone hostile would: with a checksum that fits."""
    index = json.loads((folder / "index.json").read_bytes())
    change(index)
    seal(folder, json.dumps(index).encode())


def seal(folder: Path, data: bytes) -> None:
    (folder / "index.json").write_bytes(data)
    line = f"{hashlib.sha256(data).hexdigest()}  index.json\n"
    (folder / "index.json.sha256").write_text(line)


def part(index: Index, file: str = SITE_FILE) -> Index:
    found: Index = next(entry for entry in index["parts"] if entry["file"] == file)
    return found


def replace_part(folder: Path, data: bytes, file: str = SITE_FILE) -> None:
    """Put other bytes in a part's place, with a size and hash in the index that fit."""
    (folder / file).write_bytes(data)

    def change(index: Index) -> None:
        entry = part(index, file)
        entry["bytes"], entry["sha256"] = len(data), hashlib.sha256(data).hexdigest()

    rewrite(folder, change)
