"""gramian methods: what is here, and where it comes from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from gramian.cli.options import Json, console, print_json


def methods(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
    json: Json = False,
) -> None:
    """List every method with its job and its paper.

    Example:

        gramian methods
    """
    import gramian.inspect  # importing a room registers its methods
    import gramian.lens
    import gramian.measures
    import gramian.solvers  # noqa: F401
    from gramian.registry import methods as registered
    from gramian.report.tables import methods_markdown, methods_table

    found = registered()
    if json:
        print_json([asdict(item) for item in found])
        return
    if markdown:
        typer.echo(methods_markdown(found), nl=False)
        return
    console.print(methods_table(found))
