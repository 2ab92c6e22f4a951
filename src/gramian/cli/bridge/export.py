"""gramian bridge export: a bridge for another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gramian.cli.options import Force, Json, console, print_json

EXAMPLE = """
Examples:

    gramian bridge export bridge/ --to sentence-transformers --model bundled:minilm -o encoder/

    gramian bridge export bridge/ --to sentence-transformers -o dense/

    gramian bridge export bridge/ --to onnx -o graph/

    gramian bridge export bridge/ --to faiss -o transform/

With --model the result is an ordinary checkpoint: SentenceTransformer("encoder/") encodes texts
into the target space. Every folder has a README with the direction, the models and the figures.
"""


def export(
    bridge: Annotated[Path, typer.Argument(help="A folder written by gramian bridge fit.")],
    to: Annotated[str, typer.Option(help="sentence-transformers, onnx, faiss or torch.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.")],
    model: Annotated[
        str | None,
        typer.Option(help="The encoder that the bridge starts from, to put in front of it."),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Although the model's weights are other ones.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a bridge as what another library opens: a checkpoint, a graph, a transform."""
    from gramian.bridge import open_bridge
    from gramian.bridge.export import export_bridge

    opened = open_bridge(bridge)
    done = export_bridge(opened, output, to=to, model=model, force=force, anyway=anyway)
    if json:
        print_json(done.to_json())
        return
    console.print(
        f"{output}: {opened.source} -> {opened.target} for {to}, {done.direction}, "
        f"{done.bytes / 1e6:,.1f} MB",
        soft_wrap=True,
    )


export.__doc__ = (export.__doc__ or "") + EXAMPLE
