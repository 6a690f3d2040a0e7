from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.store.support import HeldStore

from agentorchestra.core.protocols import Store
from agentorchestra.log.store import MemoryStore, PostgresStore, SqliteStore


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
