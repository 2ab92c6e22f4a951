"""Rotate the residual stream of SmolLM2-135M and drop a layer; it stays an ordinary checkpoint.

The norms are folded into the matrices that read them, so that any orthonormal basis of the
residual stream serves as well as another; a random one spreads its loud channels.

python examples/rewrite.py OUT
"""

from __future__ import annotations

import sys

import torch

import gramian as gm
from gramian.maps import Dense

base = gm.open("bundled:smollm2")
width = base.blueprint.width
basis = torch.linalg.qr(torch.randn(width, width, generator=torch.manual_seed(0)).double()).Q
norms = [gm.FoldNorm(norm.name) for norm in base.blueprint.stream_norms()]
rotation = gm.Rotate(Dense(basis).with_tags("orthogonal"))
plan = gm.Plan.of(base, *norms, rotation, gm.DropLayers((25,)))
print(plan)
print(gm.apply(base, plan, out=sys.argv[1]))
