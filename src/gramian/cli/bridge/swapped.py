"""gramian bridge swapped: one model or two?"""

from __future__ import annotations

from typing import Annotated

import typer

from gramian.cli.options import Json, console, print_json, waiting

EXAMPLE = """
Examples:

    gramian bridge swapped january.npy february.npy

    gramian bridge swapped lancedb:store/docs new.parquet#vector --check

    gramian bridge swapped index.npy

Two places are compared with each other; one is searched for a row from which on its vectors are of
another model. Verdicts: same, shifted (one model, other text), swapped (two models), cannot tell.
"""


def swapped(
    a: Annotated[str, typer.Argument(help="Vectors.")],
    b: Annotated[
        str | None, typer.Argument(help="Other vectors; without them, A is searched.")
    ] = None,
    id_field: Annotated[str, typer.Option(help="Column of ids.")] = "id",
    check: Annotated[
        bool, typer.Option("--check", help="Exit with status 1 when two models are found.")
    ] = False,
    json: Json = False,
) -> None:
    """Catch a silent swap of models of one width, from moments alone."""
    from gramian.bridge.swapped import mixed, shards_of, stretches_of
    from gramian.bridge.swapped import swapped as compare
    from gramian.bridge.vectors import open_vectors

    first = open_vectors(a, id_field=id_field)
    with waiting("reading vectors"):
        if b is None:
            found = mixed(stretches_of(first))
        else:
            second = open_vectors(b, id_field=id_field)
            found = compare(shards_of(first), shards_of(second))
    if json:
        print_json(found.to_json())
    else:
        where = "" if found.at is None else f" from about row {found.at:,} on"
        console.print(f"[bold]{found.verdict}[/]{where}: {found.reason}", soft_wrap=True)
    if check and found.verdict == "swapped":
        raise typer.Exit(1)


swapped.__doc__ = (swapped.__doc__ or "") + EXAMPLE
