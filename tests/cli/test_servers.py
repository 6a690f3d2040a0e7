"""Servers that fail: a sentence, exit code 1, a log that can be read, and a resume once the server is well."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentorchestra.testing import LoopbackModelServer, Reply, ServerReply, call, garbage, html, http_error, silence
from tests.cli.support import Folder
from tests.support.patience import LONGEST_S

SETTINGS = """
model = "local"
[models.local]
model = "test-model"
base_url = "{address}"
api_key_env = "LOCAL_KEY"
timeout_s = {seconds}
max_attempts = 2
backoff_s = 0.01
rate_limit_s = 0
"""
KEY = {"LOCAL_KEY": "sk-very-secret-key"}


class Provider:
    """A server in a thread: it answers well, or in the way it is told to fail.

    Attributes:
        failure: how it fails, None while it is well.
        server: the server.
    """

    def __init__(self, failure: ServerReply | None = None) -> None:
        self.failure = failure
        self.server = LoopbackModelServer(self._answer)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def _answer(self, body: dict[str, Any]) -> Reply | ServerReply:
        return self.failure or call("done", answer=f"asked for {body['model']}")

    async def _serve(self) -> None:
        async with self.server:
            self._ready.set()
            await self._stop.wait()

    @contextmanager
    def running(self) -> Iterator[Provider]:
        """Serve while the context is open."""
        self._thread.start()
        try:
            assert self._ready.wait(LONGEST_S)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(30)
            self._loop.close()


def use(folder: Folder, address: str, *, seconds: float = 30, more: str = "") -> None:
    folder.environment.update(KEY)
    folder.write("agentorchestra.toml", SETTINGS.format(address=address, seconds=seconds) + more)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("failure", "kind", "requests"),
    [
        (http_error(401, "no such key"), "ModelAuthError", 1),
        (http_error(404, "no such model"), "ModelRequestError", 1),
        (http_error(429, "slow down", retry_after_s=0), "ModelRateLimitError", 4),
        (http_error(500, "we are broken"), "ModelUnavailableError", 2),
        (garbage(), "ModelResponseError", 2),
        (html(), "ModelResponseError", 2),
        pytest.param(silence(), "ModelUnavailableError", 2, marks=pytest.mark.long),
        (ServerReply(drop=True), "ModelUnavailableError", 2),
    ],
    ids=["401", "404", "429", "500", "garbage", "html", "silence", "drop"],
)
def test_a_server_that_fails(folder: Folder, failure: ServerReply, kind: str, requests: int) -> None:
    with Provider(failure).running() as provider:
        # The time limit must outlast the start of the client on a busy machine.
        use(folder, provider.server.base_url, seconds=5 if failure.silent else LONGEST_S)
        done = folder.run("run", "Say something", "--json")
        assert done.code == 1
        assert done.json["status"] == "failed"
        assert done.json["error"] == done.error
        assert done.json["run_id"] == folder.ids()[0]
        assert done.json["error_type"] == kind
        assert provider.server.count == requests
        found = folder.assert_readable()
        assert found["run"]["status"] == "failed"
        failed = [event for event in found["events"] if event["type"] == "attempt_failed"]
        assert len(failed) == requests
        assert KEY["LOCAL_KEY"] not in str(found) + done.out + done.err
        provider.failure = None
        again = folder.run("resume", "last", "--json")
        assert again.code == 0
        assert again.json["answer"] == "asked for test-model"
        assert again.json["cost_usd"] is None
        assert folder.run("replay", "last").code == 0


class Once(Provider):
    """A server that fails once."""

    def _answer(self, body: dict[str, Any]) -> Reply | ServerReply:
        failure, self.failure = self.failure, None
        return failure or super()._answer(body)


def test_a_broken_connection_stands_apart_in_the_bill(folder: Folder) -> None:
    """Nobody knows what it cost: it is no token spent, and the budget holds what it can be at most."""
    with Once(ServerReply(drop=True)).running() as provider:
        use(folder, provider.server.base_url, more="max_tokens = 4096\nprice = {input = 1, output = 2}\n")
        done = folder.run("run", "Say something", "--json")
    assert done.code == 0
    usage = done.json["usage"]
    assert (usage["requests"], provider.server.count) == (1, 2)
    assert usage["uncertain_tokens"] > 4096 > usage["output_tokens"]
    assert usage["uncertain_usd"] > 4096 * 2 / 1e6
    assert usage["cost_usd"] < 0.01
    unknown = f"unknown, at most ${usage['uncertain_usd']:.4f} ({usage['uncertain_tokens']:,} tokens)"
    for command in ("cost", "show"):
        assert f"${usage['cost_usd']:.4f}, {unknown}" in folder.run(command, "last").out, command
    (row,) = folder.run("cost", "--json").json["rows"]
    assert (row["uncertain_tokens"], row["uncertain_usd"]) == (usage["uncertain_tokens"], usage["uncertain_usd"])


def test_progress_names_failed_attempts(folder: Folder) -> None:
    with Provider(http_error(500, "we are broken")).running() as provider:
        use(folder, provider.server.base_url)
        done = folder.run("run", "Say something")
    assert done.code == 1
    attempts = [line for line in done.err.splitlines() if line.startswith("  attempt failed: ")]
    assert len(attempts) == 2
    assert "; trying again in " in attempts[0]
    assert f"to go on: agentorchestra resume {folder.ids()[0]}" in done.err
    assert done.status.startswith("failed, run_")


def test_a_server_that_cannot_be_reached(folder: Folder) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    use(folder, f"http://127.0.0.1:{port}/v1")
    done = folder.run("run", "Say something", "--json")
    assert done.code == 1
    assert done.json["error_type"] == "ModelServerDownError"
    assert f"127.0.0.1:{port}" in done.error
    folder.assert_readable()
    with Provider().running() as provider:
        use(folder, provider.server.base_url)
        again = folder.run("resume", "last")
    assert again.code == 0
    assert again.out == "asked for test-model\n"
    assert ", cost unknown, " in again.status


def test_a_missing_key_spends_nothing(folder: Folder) -> None:
    use(folder, "https://models.example.org/v1")
    folder.environment.clear()
    done = folder.run("run", "Say something", "--json")
    assert done.code == 2
    assert done.json["error_type"] == "MissingKeyError"
    assert "export LOCAL_KEY=" in done.error
    assert folder.ids() == []


def test_a_budget_needs_a_price(folder: Folder) -> None:
    with Provider().running() as provider:
        use(folder, provider.server.base_url)
        done = folder.run("run", "Say something", "--budget-usd", "1")
        assert done.code == 2
        assert "the price of model 'local' is unknown" in done.error
        use(folder, provider.server.base_url, more="price = { input = 1, output = 2 }\n")
        priced = folder.run("run", "Say something")
        assert priced.code == 0
        assert "budget: 1 US dollar by default for local; --budget-usd changes it" in priced.err
        assert provider.server.count == 1


@pytest.mark.long
def test_ctrl_c_while_a_server_is_silent(folder: Folder) -> None:
    with Provider(silence()).running() as provider:
        use(folder, provider.server.base_url)
        with folder.start("run", "Say something") as started:
            started.wait_for("step 1 (agentorchestra)")
            started.interrupt()
            done = started.end()
        assert done.code == 130
        assert folder.assert_readable()["run"]["status"] == "cancelled"
        provider.failure = None
        assert folder.run("resume", "last").code == 0
