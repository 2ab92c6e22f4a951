"""The command line: one thin command per job."""

from __future__ import annotations

from gramian.cli.app import main

__all__ = ["main"]
