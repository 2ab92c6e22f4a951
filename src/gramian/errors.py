"""The one exception that Gramian raises for input it cannot use."""

from __future__ import annotations


class GramianError(ValueError):
    """Input that cannot be used.

    The message says what was given, what was expected and what to do about it. The command
    line prints it without a traceback and exits with status 2.
    """
