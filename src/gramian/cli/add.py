"""gramian add: moments add."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramian.cli.machines import missing
from gramian.cli.options import Force, Json, console, print_json
from gramian.errors import GramianError


def add(
    moments: Annotated[list[Path], typer.Argument(help="Two or more folders of moments.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write.")],
    force: Force = False,
    json: Json = False,
) -> None:
    """Add moments of the same model over different documents; exact, in any order.

    Shards of one collection (gramian collect --shard i/n) add up to that collection.

    Example:

        gramian add monday.moments tuesday.moments -o week.moments
    """
    from gramian.moments import add_moments

    if len(moments) < 2:
        raise GramianError(f"add needs two or more folders of moments, given {len(moments)}")
    total = add_moments(moments, out, force=force)
    tokens = sum(count["tokens"] for count in total.counts.values())
    if json:
        print_json(
            {
                "path": str(out),
                "sites": len(total.sites),
                "pairs": len(total.pairs),
                "tokens": tokens,
                "missing": [] if total.shards is None else list(total.shards.missing),
            }
        )
        return
    console.print(f"{out}: {tokens:,} tokens from {len(moments)} collections")
    if total.shards is not None:
        console.print(missing(total, out), soft_wrap=True, highlight=False)
