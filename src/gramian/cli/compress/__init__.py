"""gramian compress: smaller networks from moments."""

from __future__ import annotations

import typer

from gramian.cli.compress.depth import depth
from gramian.cli.compress.heads import heads
from gramian.cli.compress.kv import kv
from gramian.cli.compress.mlp import mlp
from gramian.cli.compress.rank import rank
from gramian.cli.compress.slice import slice
from gramian.cli.compress.sweep import sweep

compress = typer.Typer(
    help="Cut depth, width, rank and KV cache, and write checkpoints that load.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (depth, mlp, heads, slice, rank, kv, sweep):
    compress.command(short_help=(command.__doc__ or "").partition("\n")[0])(command)
