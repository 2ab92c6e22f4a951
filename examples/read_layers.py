"""Cast every layer of SmolLM2-135M to the last one, and read one prompt through the casts.

    python examples/read_layers.py

Takes about a minute and needs the packages of `make demo`; nothing is downloaded.
"""

from __future__ import annotations

import gramian as gm

base = gm.open("bundled:smollm2")
docs = gm.documents("bundled:pydocs")
moments = gm.collect(base, docs, gm.lens.needs(base, submodules=False), tokens=8_192)

casts = gm.lens.solve(base, moments)
for site in ("0.resid_pre", "12.resid_pre", "24.resid_pre", "29.resid_pre"):
    print(f"{site:13} explains {casts[site].r2:.0%} of the last layer on held-out documents")

reading = gm.lens.read_prompt(base, casts, "The capital of France is", top=1)
last = len(reading.tokens) - 1
for cast, identity in zip(reading.cast, reading.identity, strict=True):
    if cast.position == last and cast.site in ("20.resid_pre", "25.resid_pre", "final"):
        print(f"{cast.site:13} cast {cast.tokens[0]!r:12} identity {identity.tokens[0]!r}")
