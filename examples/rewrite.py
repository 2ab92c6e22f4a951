"""Fold a norm and drop a layer of SmolLM2-135M; the result is an ordinary checkpoint.

python examples/rewrite.py OUT
"""

from __future__ import annotations

import sys

import gramian as gm

base = gm.open("bundled:smollm2")
plan = gm.Plan.of(base, gm.FoldNorm("12.mlp"), gm.DropLayers((25,)))
print(plan)
print(gm.apply(base, plan, out=sys.argv[1]))
