"""A PostgreSQL server for the tests of this folder."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server of this session, and the address of a database on it."""
    pgserver = pytest.importorskip("pgserver", reason="no PostgreSQL: pip install pgserver")
    psycopg = pytest.importorskip("psycopg", reason="no client: pip install psycopg[binary]")
    failure = None
    for _ in range(3):  # a busy machine may need longer to start one than is waited for
        folder = tmp_path_factory.mktemp("pg")
        try:
            held = pgserver.get_server(folder, cleanup_mode="stop")
            held.psql("CREATE EXTENSION IF NOT EXISTS vector")
            uri = held.get_uri()
            psycopg.connect(uri).close()
            break
        except Exception as error:  # whatever keeps a server from starting here
            failure = error
            _stop(folder)
    else:
        pytest.fail(f"pgserver is installed and PostgreSQL does not start: {failure}")
    yield held, uri
    with contextlib.suppress(Exception):
        held.cleanup()


def _stop(folder):
    """Stop what may have started after all."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        os.kill(int((folder / "postmaster.pid").read_text().splitlines()[0]), signal.SIGQUIT)
