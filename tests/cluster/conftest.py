"""A model's server and a workspace in a database."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.support import Model, Site
from tests.postgres import Postgres

_NUMBERS = itertools.count(1)


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    """The model of the runs."""
    async with Model() as made:
        yield made


@pytest.fixture
async def site(tmp_path: Path, model: Model, database_server: Postgres) -> AsyncIterator[Site]:
    """Without a worker yet. Leases hold for a day: only a proof of death lets the next driver in."""
    schema = f"cluster_{next(_NUMBERS)}"
    async with Site(tmp_path / "site", model, database_server.url, schema, ("lease_s = 86400",)) as made:
        yield made
