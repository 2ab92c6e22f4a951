"""gramian resize: smaller and larger networks of the same kind, to train on."""

from __future__ import annotations

import typer

from gramian.cli.resize.grow import grow
from gramian.cli.resize.shrink import shrink

resize = typer.Typer(
    help="Start a smaller or a larger network from a trained one, as an ordinary checkpoint.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (shrink, grow):
    resize.command(short_help=(command.__doc__ or "").partition("\n")[0])(command)
