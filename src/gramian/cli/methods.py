"""gramian methods: what is here, and where it comes from."""

from __future__ import annotations

from dataclasses import asdict

from gramian.cli.options import Json, console, print_json


def methods(json: Json = False) -> None:
    """List every method with its job and its paper.

    Example:

        gramian methods
    """
    import gramian.lens  # importing a room registers its methods
    import gramian.measures
    import gramian.solvers  # noqa: F401
    from gramian.registry import methods as registered
    from gramian.report.tables import methods_table

    found = registered()
    if json:
        print_json([asdict(item) for item in found])
        return
    console.print(methods_table(found))
