"""Entry point: collects the commands, turns errors into messages and exit codes."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from gramian.cli.add import add
from gramian.cli.bridge import bridge
from gramian.cli.collect import collect
from gramian.cli.compare import compare
from gramian.cli.compress import compress
from gramian.cli.evaluate import evaluate
from gramian.cli.info import info
from gramian.cli.inspect import inspect
from gramian.cli.lens import lens
from gramian.cli.methods import methods
from gramian.cli.report import report
from gramian.cli.resize import resize
from gramian.errors import GramianError

app = typer.Typer(
    name="gramian",
    help="Find, judge, use and fuse the linear maps inside trained neural networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (collect, lens, inspect, compare, add, info, evaluate, report, methods):
    app.command(short_help=(command.__doc__ or "").partition("\n")[0])(command)
app.add_typer(bridge, name="bridge")
app.add_typer(compress, name="compress")
app.add_typer(resize, name="resize")


def main() -> None:
    """Run the command line; exit 2 for input that cannot be used (130 when interrupted)."""
    console = Console(stderr=True)
    try:
        app()
    except GramianError as error:
        console.print(f"[bold red]error:[/] {_escaped(str(error))}", soft_wrap=True)
        sys.exit(2)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
