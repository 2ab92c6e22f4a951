"""gramian bridge: between the vectors of one model and those of another."""

from __future__ import annotations

import typer

from gramian.cli.bridge.apply import apply
from gramian.cli.bridge.export import export
from gramian.cli.bridge.fit import fit
from gramian.cli.bridge.judge import judge
from gramian.cli.bridge.plan import plan
from gramian.cli.bridge.sample import sample
from gramian.cli.bridge.swapped import swapped

bridge = typer.Typer(
    help="Translate between embedding spaces: fit, judge, apply, export.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (sample, fit, judge, plan, apply, swapped, export):
    bridge.command(short_help=(command.__doc__ or "").partition("\n")[0])(command)
