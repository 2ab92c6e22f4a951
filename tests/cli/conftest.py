"""Run the command line in this process and read what it says."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gramian.cli import main
from tests import tiny


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def gramian(monkeypatch, capsys) -> Callable[..., Result]:
    """``gramian("info", path)``: exit code, standard output, standard error (unwrapped)."""

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["gramian", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        code = 0
        try:
            main()
        except SystemExit as exit:
            code = int(exit.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """JSON lines of known words; the second file holds other documents."""
    folder = tmp_path_factory.mktemp("text")
    for name, seed in (("a", 0), ("b", 1)):
        lines = [json.dumps({"text": text}) for text in tiny.texts(250, seed=seed)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return folder
