"""Which store a chaos test is about."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.postgres import Postgres

_NUMBERS = itertools.count(1)

Log = Callable[[], tuple[str, ...]]
"""Lines for a settings file: a workspace's log that no other test uses."""


@pytest.fixture(params=["sqlite", "postgres"])
def log(request: pytest.FixtureRequest) -> Log:
    """SQLite in the folder, or a schema of its own in a database."""
    if request.param == "sqlite":
        return lambda: ()
    return in_database(request.getfixturevalue("database_server"))


def in_database(server: Postgres) -> Log:
    """Logs in a database."""
    return lambda: (f'database = "{server.url}"', f'database_schema = "chaos_{next(_NUMBERS)}"')


IN_SHORT = (
    "test_what_was_approved_is_done_once[postgres-after_mark:/1.react/7.approval#1]",
    "test_a_live_process_goes_on_undisturbed[postgres]",
)
"""What `make test` runs over a database too; the rest is for the long tier."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The whole suite twice would take too long for every change."""
    for item in items:
        chosen = getattr(item, "callspec", None)
        if chosen is not None and chosen.params.get("log") == "postgres" and item.name not in IN_SHORT:
            item.add_marker(pytest.mark.long)
