"""The list of methods: registered once, read by the command line, the docs and the tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gramian.errors import GramianError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Method:
    """One method of the literature and the function that offers it."""

    name: str
    job: str
    paper: str
    summary: str
    function: str


_METHODS: dict[str, Method] = {}


def method(name: str, *, job: str, paper: str) -> Callable[[F], F]:
    """Register a public function as the home of a method.

    Parameters
    ----------
    name : the method's name in its own field, unique in the registry.
    job : the job that a person does with it (``lens``, ``compare`` ...).
    paper : arXiv identifier or full reference.

    Raises
    ------
    GramianError : the name is taken, or the function has no docstring.
    """

    def register(function: F) -> F:
        where = f"{function.__module__}.{function.__qualname__}"
        if name in _METHODS and _METHODS[name].function != where:
            raise GramianError(
                f"method {name!r} is registered twice: by {_METHODS[name].function} and {where}; "
                "give the second one a name of its own"
            )
        if not function.__doc__:
            raise GramianError(f"method {name!r}: {where} has no docstring; write one")
        paragraph = function.__doc__.strip().split("\n\n")[0]
        summary = " ".join(paragraph.split()).rstrip(".").replace("``", "`")
        _METHODS[name] = Method(name, job, paper, summary, where)
        return function

    return register


def methods() -> tuple[Method, ...]:
    """All registered methods, sorted by job and name."""
    return tuple(sorted(_METHODS.values(), key=lambda m: (m.job, m.name)))
