"""The one exception that Gramian raises for input it cannot use."""

from __future__ import annotations

import os
from pathlib import Path


class GramianError(ValueError):
    """Input that cannot be used.

    The message says what was given, what was expected and what to do about it. The command
    line prints it without a traceback and exits with status 2.
    """


def refuse_existing(path: str | Path, *, force: bool) -> Path:
    """The path, when it may be written: there is nothing, or it may be replaced.

    Raises
    ------
    GramianError : something is there and ``force`` is false.
    """
    if os.path.lexists(path) and not force:
        raise GramianError(
            f"{path} exists; choose another name, or force=True (--force) to replace it"
        )
    return Path(path)
