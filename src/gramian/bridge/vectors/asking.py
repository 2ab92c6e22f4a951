"""Questions to stores, which may be away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gramian.errors import GramianError

T = TypeVar("T")


def asked(address: str, call: Callable[[], T], errors: tuple[type[Exception], ...]) -> T:
    """The answer of a store.

    Parameters
    ----------
    errors : what its client raises where the store is away or refuses.

    Raises
    ------
    GramianError : one of these; with the first line of what the client says.
    """
    try:
        return call()
    except GramianError:
        raise
    except errors as error:
        lines = str(error).strip().splitlines()
        said = lines[0] if lines else type(error).__name__
        raise GramianError(
            f"{address}: the store does not answer or refuses ({said}); what was written before "
            "is kept, and the same command goes on"
        ) from error
