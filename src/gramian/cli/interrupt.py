"""Ctrl-C during a collection: stop at the end of a batch, where everything can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from gramian.cli.options import errors


@contextmanager
def stop_between_batches() -> Iterator[Callable[[], None]]:
    """While open, the first Ctrl-C only sets a flag; call what is yielded after every batch to
    have it raised there. A second Ctrl-C stops at once. Ends the command with status 130."""
    asked = threading.Event()

    def check() -> None:
        if asked.is_set():
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check
        return

    def note(_signal: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        errors.print("stopping after this batch; press Ctrl-C again to stop at once")

    before = signal.signal(signal.SIGINT, note)
    try:
        yield check
    except KeyboardInterrupt:
        errors.print("interrupted; the same command goes on from the last saved state")
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGINT, before)
