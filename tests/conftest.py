"""What every test relies on."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from agentorchestra.log.store.sqlite import SqliteStore
from tests.postgres import Postgres, postgres
from tests.registered import FOLDERS, begin_registered
from tests.support.again import try_again

# A shell that starts the tests in the background lets them ignore Ctrl-C, and every process they start inherits that:
# tests that interrupt a process would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a change is to blame when one fails; HYPOTHESIS_PROFILE=default looks further.
# A busy machine decides no test. With every change fewer are tried (`tests.support.examples`).
hypothesis.settings.register_profile(
    "repeated", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("repeated"), max_examples=25)

_NUMBERS = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples of a property are tried, before the tests say theirs."""
    tier = "quick" if config.option.markexpr == "not long" else "repeated"
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", tier))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what the collection makes to itself: it stays until the end, and looking there for garbage takes long.

    What a test leaves open is found a little later, at the end of the tests at the latest.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as long what `sampled` leaves out, and as to be tried again what drives a real browser or desktop."""
    try_again(items)
    seen: Counter[str] = Counter()
    for item in items:
        if (sampled := item.get_closest_marker("sampled")) is not None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % sampled.args[0]:
                item.add_marker(pytest.mark.long)
            seen[test] += 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Hand out the tests of some modules to one process (`tests.support.sharing`)."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.support.sharing import Together

    return Together(config, log)


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """Do not wait for the disk in this process: what is written there outlives processes, not the machine.

    A test would wait for it fifty times. Processes that tests start wait as they do for users;
    `test_wal_with_full_sync` checks what the store asks of SQLite.
    """
    connect = SqliteStore._connect

    @functools.wraps(connect)
    def unsynced_connect(self: SqliteStore) -> sqlite3.Connection:
        connection = connect(self)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteStore, "_connect", unsynced_connect)
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def registered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with the packaged components registered where the folder of the test is in the list."""
    if request.path.relative_to(Path(__file__).parent).parts[0] in FOLDERS:
        begin_registered(monkeypatch)


@pytest.fixture(scope="session")
def database_server() -> Iterator[Postgres]:
    """A PostgreSQL for all tests of this process; those that stop it have one of their own."""
    with postgres() as made:
        yield made


@pytest.fixture(scope="session")
def server(database_server: Postgres) -> Postgres:
    """The same."""
    return database_server


@pytest.fixture
def schema() -> str:
    """One that no other test uses."""
    return f"ws_{next(_NUMBERS)}"
