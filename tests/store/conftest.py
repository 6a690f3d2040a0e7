from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.store.support import HeldStore

from agentorchestra.core.protocols import Store
from agentorchestra.runtime.store import MemoryStore, SqliteStore


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Every store, open; PostgreSQL joins here."""
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ws")
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def held(tmp_path: Path) -> AsyncIterator[HeldStore]:
    made = HeldStore(tmp_path / "ws")
    await made.open()
    yield made
    await made.close()
