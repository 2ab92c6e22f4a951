"""A PostgreSQL server for the tests of this folder."""

from __future__ import annotations

import contextlib

import pytest


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a database on a server of this session."""
    pgserver = pytest.importorskip("pgserver", reason="no PostgreSQL: pip install pgserver")
    import psycopg

    folder = tmp_path_factory.mktemp("pg")
    try:
        held = pgserver.get_server(folder, cleanup_mode="stop")
        held.psql("CREATE EXTENSION IF NOT EXISTS vector")
        uri = held.get_uri()
        psycopg.connect(uri).close()
    except Exception as error:  # whatever keeps a server from starting here
        pytest.skip(f"PostgreSQL does not start here: {error}")
    yield held, uri
    with contextlib.suppress(Exception):
        held.cleanup()
