"""gramian methods: what is here, and where it comes from."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from typing import Annotated

import typer

from gramian.cli.options import Json, console, errors, print_json


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
    import gramian.solvers
    from gramian.registry import methods as registered
    from gramian.report.tables import methods_markdown, methods_table

    if find_spec("sklearn") is None:
        errors.print("[yellow]note:[/] bridges are left out: pip install 'gramian[bridge]'")
    else:
        import gramian.bridge  # noqa: F401
    found = registered()
    if json:
        print_json([asdict(item) for item in found])
        return
    if markdown:
        typer.echo(methods_markdown(found), nl=False)
        return
    console.print(methods_table(found))
