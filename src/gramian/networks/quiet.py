"""Keep the progress bars of transformers away from what a person reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """While open, transformers draws no bars."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()
