"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.status import Status

from gramian.errors import GramianError

Device = Annotated[str, typer.Option(help="Where the network runs: cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[str, typer.Option(help="Weights in float32, bfloat16, float16 or float64.")]
Seed = Annotated[int, typer.Option(help="Seed of the document order.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]

console = Console()
errors = Console(stderr=True)

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)[bB]?")
_SCALE = {"": 1, "k": 1, "m": 2, "g": 3, "t": 4}


def amount(text: str, what: str, *, base: int = 1000) -> int:
    """Read ``32k``, ``1.5M`` or ``18GB``.

    Raises
    ------
    GramianError : the text is not a number with an optional suffix.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if not match:
        raise GramianError(f"{what} {text!r}: expected a number such as 32000, 32k, 1.5M or 4GB")
    power = 0 if not match[2] else _SCALE[match[2].lower()]
    return int(float(match[1]) * base**power)


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def command_line() -> str:
    """The command that runs now, as it can be typed again."""
    return shlex.join(["gramian", *sys.argv[1:]])


def waiting(what: str) -> Status:
    """A spinner on standard error for something whose length is not known."""
    return errors.status(what)


class Advance(Protocol):
    """Reports progress: what is done, and of how much where that is known."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


@contextmanager
def bar(label: str, total: int | None = None) -> Iterator[Advance]:
    """A progress bar with the time left, on standard error; nothing where that is no terminal."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    ) as progress:
        task = progress.add_task(label, total=total)

        def advance(done: int, total: int | None = None) -> None:
            if total is None:
                progress.update(task, completed=done)
            else:
                progress.update(task, completed=done, total=total)

        yield advance
