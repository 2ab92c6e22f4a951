"""gramian methods: what is here, and where it comes from."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages
from typing import Annotated

import typer

from gramian.cli.options import Json, console, errors, print_json

ROOMS = ("solvers", "measures", "lens", "inspect", "compare", "bridge", "compress")
"""Where methods live."""


def methods(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
    json: Json = False,
) -> None:
    """List every method with its job and its paper.

    Example:

        gramian methods
    """
    from gramian.registry import methods as registered
    from gramian.report.tables import methods_markdown, methods_table

    rooms: tuple[str, ...] = ROOMS
    if find_spec("sklearn") is None:
        errors.print("[yellow]note:[/] bridges are left out: pip install 'gramian[bridge]'")
        rooms = tuple(room for room in ROOMS if room != "bridge")
    for room in rooms:
        _import_all(f"gramian.{room}")
    found = registered()
    if json:
        print_json([asdict(item) for item in found])
        return
    if markdown:
        typer.echo(methods_markdown(found), nl=False)
        return
    console.print(methods_table(found))


def _import_all(room: str) -> None:
    """Import every module of a room, which registers its methods."""
    package = import_module(room)
    for found in walk_packages(package.__path__, f"{room}."):
        import_module(found.name)
