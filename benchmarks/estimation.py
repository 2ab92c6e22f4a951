"""The figures of docs/estimation.md on real rows and weights: layer 12 of SmolLM2-135M.

    python benchmarks/estimation.py [--tokens 4096] [--completion] [--json]

Robust weights against the moments without the rows that own everything; Nystrom from columns and
from one pass against the best of the rank; CUR of a weight against its SVD; and, as it takes
minutes, with --completion a second moment of which half the entries were hidden.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
from torch import Tensor

import gramian as gm
from gramian.moments import MaskedMoments, Moments, RobustPilot, SketchedMoments
from gramian.networks.collect import batches
from gramian.solvers import complete, cur, leading_columns, nystrom

SITES = ("12.resid_pre", "12.mlp_mid")
WEIGHT = "model.layers.12.mlp.down_proj.weight"
BEYOND = 10.0
"""Rows further than this many pilot distances are left out of what robust weights should give."""


def rows_of(base: Any, tokens: int) -> dict[str, Tensor]:
    """Rows (n, d) of the sites, nothing left out."""
    kept: dict[str, list[Tensor]] = {site: [] for site in SITES}
    for batch in batches(base, gm.documents("bundled:pydocs"), tokens=tokens, length=512):
        seen = gm.networks.capture(base.model, base.blueprint, SITES, batch.ids, batch.mask).rows
        for site in SITES:
            kept[site].append(seen[site][batch.mask])
    return {site: torch.cat(parts) for site, parts in kept.items()}


def leading(moments: Moments) -> Tensor:
    return torch.linalg.eigh(moments.scatter).eigenvectors[:, -1]


def degrees(a: Moments, b: Moments) -> float:
    """Angle between leading directions."""
    return float(torch.rad2deg(torch.arccos((leading(a) @ leading(b)).abs().clamp(max=1.0))))


def robust(rows: Tensor) -> tuple[dict[str, float], Tensor]:
    """Angles and sizes beside the moments of the near rows, and those rows."""
    pilot = RobustPilot.fit(rows)
    distance = (rows.double() - pilot.centre).norm(dim=1)
    near = rows[distance <= BEYOND * pilot.scale]
    reference, whole = Moments.from_rows(near), Moments.from_rows(rows)
    huber = (2 * pilot.scale / distance).clamp(max=1.0)
    weighted = Moments.from_rows(rows, pilot.weights(rows))
    size = reference.trace / reference.count
    rescaled = pilot.rescale(weighted)
    found = {
        "far_rows": float(len(rows) - len(near)),
        "variance_of_far_rows": 1.0 - reference.trace / whole.trace,
        "plain_degrees": degrees(whole, reference),
        "huber_degrees": degrees(Moments.from_rows(rows, huber), reference),
        "squared_degrees": degrees(weighted, reference),
        "plain_size": whole.trace / whole.count / size,
        "rescaled_size": rescaled.trace / rescaled.count / size,
    }
    return found, near


def wide(rows: Tensor, rank: int) -> dict[str, float]:
    """Share of the variance left out, by how the leading directions were found."""
    moments = Moments.from_rows(rows)
    values = torch.linalg.eigvalsh(moments.scatter)
    columns = leading_columns(moments, rank + 10)

    def one_pass(width: int) -> float:
        sketch = gm.maps.fjlt(rows.shape[1], width, seed=0)
        return nystrom(SketchedMoments.from_rows(rows, sketch), rank).missing

    return {
        "best": 1.0 - float(values[-rank:].sum() / values.sum()),
        "leading_columns": nystrom(moments, rank, columns=columns).missing,
        "one_pass_rank_plus_10": one_pass(rank + 10),
        "one_pass_twice_the_rank": one_pass(2 * rank),
    }


def factors(weight: Tensor, rank: int) -> dict[str, float]:
    """Relative error in Frobenius norm of CUR, beside the best of the rank."""
    values = torch.linalg.svdvals(weight.double()).square()
    found = {"svd": float((values[rank:].sum() / values.sum()).sqrt())}
    for core in ("best", "cross"):
        for kind in ("pivot", "leverage"):
            made = cur(weight, rank, kind=kind, core=core).map.to_dense(torch.float64)
            gap = (made - weight.double()).norm() / weight.double().norm()
            found[f"{kind}_{core}"] = float(gap)
    return found


def completion(rows: Tensor, rank: int) -> dict[str, float]:
    """Relative errors of the second moment with half of the entries hidden."""
    seen = torch.rand(rows.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    masked = MaskedMoments.from_rows(rows, seen)
    whole = Moments.from_rows(rows).covariance(ddof=0.0)
    values, vectors = torch.linalg.eigh(whole)
    best = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T

    def off(second: Tensor) -> float:
        return float((second - whole).norm() / whole.norm())

    return {
        "masked": off(masked.second()),
        "completed": off(complete(masked, rank).second),
        "best_of_the_rank": off(best),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--completion", action="store_true", help="also the slow one, rank 32")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    base = gm.open("bundled:smollm2")
    rows = rows_of(base, arguments.tokens)
    result: dict[str, Any] = {"rows": len(rows[SITES[0]])}
    result["robust"], near = robust(rows[SITES[0]])
    for rank in (64, 256):
        result[f"nystrom_{rank}"] = wide(rows[SITES[1]], rank)
    weight = base.model.get_parameter(WEIGHT).detach()
    for rank in (64, 256):
        result[f"cur_{rank}"] = factors(weight, rank)
    if arguments.completion:
        result["completion_32"] = completion(near, 32)
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{result.pop('rows')} rows")
    for name, figures in result.items():
        print(name)
        for key, value in figures.items():
            print(f"    {key:26} {value:.3f}")


if __name__ == "__main__":
    main()
