"""Alembic's revisions, applied by `Store.open` and never from a command line: there is no alembic.ini and no env.py.

A change of `schema.py` needs a new file in versions/ and its revision in `schema.REVISIONS`; tests compare what the
revisions make with the tables.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from agentorchestra.log.store.schema import REVISIONS, metadata

_ONE_AT_A_TIME = threading.Lock()


def script_directory() -> ScriptDirectory:
    """Return the revisions of this package."""
    return ScriptDirectory(str(Path(__file__).parent))


def upgrade(connection: Connection, to: str = REVISIONS[-1]) -> None:
    """Bring the database to a revision, the latest one by default, inside the transaction of `connection`."""
    script = script_directory()

    def steps(revision: Any, _context: Any) -> Sequence[Any]:
        return script._upgrade_revs(to, revision)

    # `alembic.op` is one for the whole process: two stores that are opened at once would write into one database.
    with _ONE_AT_A_TIME, EnvironmentContext(Config(), script, fn=steps) as environment:
        # SQLite's DDL is transactional; Alembic only doubts it because of how sqlite3 used to begin transactions.
        environment.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
        with environment.begin_transaction():
            environment.run_migrations()
