"""gramian bridge apply: carry vectors over a bridge into a new place."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from gramian.cli.options import Force, Json, bar, console, print_json
from gramian.errors import refuse_existing

FILES = ("npy", "parquet", "jsonl", "faiss")

EXAMPLE = """
Examples:

    gramian bridge apply bridge/ queries.npy -o mapped.npy

    gramian bridge apply bridge/ lancedb:store/docs -o lancedb:store/docs_new --dry-run

    gramian bridge apply bridge/ new.parquet#vector -o qdrant:qdrant/bridged --dtype float16

OUT is a new file, table, column or collection, never the source; it carries a stamp of the model
whose space its vectors are in. An interrupted run (Ctrl-C, a killed process) goes on when the same
command is given again.
"""


def apply(
    bridge: Annotated[Path, typer.Argument(help="A folder written by gramian bridge fit.")],
    source: Annotated[str, typer.Argument(metavar="IN", help="Vectors of the bridge's source.")],
    output: Annotated[str, typer.Option("--output", "-o", help="A new place for vectors.")],
    id_field: Annotated[str, typer.Option(help="Column of ids.")] = "id",
    dtype: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    batch: Annotated[int, typer.Option(help="Rows in memory at a time.")] = 16384,
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Although the vectors look like those of another model."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be written, and stop.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Map vectors and write them to a new place: streaming, any size, resumable."""
    from gramian.bridge import open_bridge
    from gramian.bridge.carrying import carry, check
    from gramian.bridge.provenance import purpose
    from gramian.bridge.vectors import Address, open_sink, open_vectors
    from gramian.bridge.vectors.opening import sink_limits

    opened = open_bridge(bridge)
    vectors = open_vectors(source, id_field=id_field)
    if not anyway:
        check(opened, vectors)
    # the place is looked at before anything is opened there
    limits = sink_limits(output, dim=opened.target.dim, dtype=dtype, like=vectors)
    if dry_run:
        address = Address.parse(output)
        if address.kind in FILES:
            refuse_existing(address.path, force=force)
        size = (vectors.count or 0) * opened.target.dim * (2 if dtype == "float16" else 4)
        found = {
            "rows": vectors.count,
            "dim_from": opened.source.dim,
            "dim_to": opened.target.dim,
            "bytes": size or None,
            "output": output,
            "place": limits.what,
            "dimensions": limits.dimensions,
            "notes": list(limits.notes),
        }
        if json:
            print_json(found)
            return
        rows = "an unknown number of" if vectors.count is None else f"{vectors.count:,}"
        console.print(
            f"{output} ({limits.what}): {rows} rows of {opened.target.dim}, about "
            f"{size / 1e6:,.1f} MB",
            soft_wrap=True,
        )
        for note in limits.notes:
            console.print(note, soft_wrap=True)
        return
    started = time.perf_counter()
    sink = open_sink(
        output,
        dim=opened.target.dim,
        dtype=dtype,
        purpose=purpose(opened, vectors, dtype=dtype),
        like=vectors,
        force=force,
    )
    with bar("mapping", vectors.count) as advance:
        found_rows = carry(
            opened, vectors, sink, dtype=dtype, batch=batch, anyway=True, progress=advance
        )
    seconds = time.perf_counter() - started
    if json:
        print_json(
            {
                "path": output,
                "rows": found_rows.rows,
                "resumed_from": found_rows.resumed_from,
                "stamp": found_rows.stamp,
                "seconds": seconds,
            }
        )
        return
    again = f", of which {found_rows.resumed_from:,} were there" if found_rows.resumed_from else ""
    console.print(
        f"{output}: {found_rows.rows:,} rows of {opened.target.dim}{again}, {seconds:.1f} s",
        soft_wrap=True,
    )


apply.__doc__ = (apply.__doc__ or "") + EXAMPLE
