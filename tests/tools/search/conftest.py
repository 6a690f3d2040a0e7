"""The site of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.site import Site, served


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with served() as running:
        yield running
