from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.postgres import Postgres, postgres
from tests.store.support import HeldStore

from agentorchestra.core.protocols import Store
from agentorchestra.runtime.store import MemoryStore, PostgresStore, SqliteStore

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A PostgreSQL for all tests of this process."""
    with postgres() as made:
        yield made


@pytest.fixture
def schema() -> str:
    """One that no other test uses."""
    return f"ws_{next(_NUMBERS)}"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> str:
    """Where several processes meet: a folder, or a schema in a database."""
    if request.param == "sqlite":
        return str(tmp_path / "ws")
    return f"{request.getfixturevalue('server').url}#{schema}"


@pytest_asyncio.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[Store]:
    """Every store, open."""
    made: Store
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "ws")
    else:
        made = PostgresStore(request.getfixturevalue("server").url, schema=schema)
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def held(tmp_path: Path) -> AsyncIterator[HeldStore]:
    made = HeldStore(tmp_path / "ws")
    await made.open()
    yield made
    await made.close()
