"""Who may come in, and what requests may bring."""

from __future__ import annotations

import base64
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import SettingsError
from agentorchestra.web import asgi
from agentorchestra.workspace import Workspace
from tests.web.support import TOKEN, Served, served

ROUTES = [
    ("GET", "/runs"),
    ("POST", "/runs"),
    ("GET", "/runs/run_1"),
    ("GET", "/runs/run_1/events"),
    ("POST", "/runs/run_1/answer"),
    ("POST", "/runs/run_1/approve"),
    ("POST", "/runs/run_1/deny"),
    ("POST", "/runs/run_1/tell"),
    ("POST", "/runs/run_1/cancel"),
    ("POST", "/runs/run_1/resume"),
    ("GET", "/nothing"),
]


async def _refused(web: Served, method: str, path: str, code: int, **options: Any) -> str:
    """The sentence of a refusal with this status."""
    async with web.http.request(method, web.address + path, **options) as answer:
        body = await answer.json()
        assert answer.status == code, (answer.status, body)
        assert set(body) == {"error", "error_type"}
        assert "Traceback" not in body["error"] and TOKEN not in str(body)
        assert answer.headers["Cache-Control"] == "no-store"
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        return str(body["error"])


async def test_every_route_wants_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(tmp_path) as web:
        for method, path in ROUTES:
            for given in ("", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer tökén"):
                sentence = await _refused(web, method, path, 401, headers={"Authorization": given})
                assert "Authorization: Bearer TOKEN" in sentence
        async with web.http.get(f"{web.address}/runs?token={TOKEN}", headers={"Authorization": ""}) as answer:
            assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
        assert await web.get("/runs") == {"runs": []}
    assert TOKEN not in caplog.text


async def test_other_names_of_this_server_are_refused(tmp_path: Path) -> None:
    others = ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "127.0.0.1@evil", "localhost.", "[::2]")
    async with served(tmp_path) as web:
        for host in others:
            for method, path in ROUTES:
                sentence = await _refused(web, method, path, 421, headers={"Host": host})
                assert host in sentence and "localhost" in sentence


async def test_its_own_names_are_allowed(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        for host in ("localhost", "LOCALHOST:8765", "127.0.0.1:1", "[::1]:8765"):
            async with web.http.get(web.address + "/runs", headers={"Host": host}) as answer:
                assert answer.status == 200, host


async def test_a_name_that_is_given_is_allowed(tmp_path: Path) -> None:
    async with served(tmp_path, allowed_hosts=("Agents.Example.org",)) as web:
        async with web.http.get(web.address + "/runs", headers={"Host": "agents.example.org"}) as answer:
            assert answer.status == 200
        await _refused(web, "GET", "/runs", 421)


async def test_a_page_of_another_origin_gets_no_permission(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        await _refused(web, "OPTIONS", "/runs", 405, headers=headers)


def test_a_token_is_made_where_none_is_given(tmp_path: Path) -> None:
    tokens = {asgi(Workspace(tmp_path)).token for _ in range(3)}
    assert len(tokens) == 3 and all(len(one) >= 32 for one in tokens)


@pytest.mark.parametrize(
    "token", ["", "short", "with spaces in it all over", "tökens-of-the-tests", "line\nbreaks-0123456"]
)
def test_a_token_that_cannot_be_one_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(SettingsError, match="at least 16 letters") as caught:
        asgi(Workspace(tmp_path), token=token)
    assert not token or token not in str(caught.value)


async def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path, max_body_bytes=1000) as web:

        async def pieces() -> Any:
            for _ in range(20):
                yield b"x" * 100

        json = {"Content-Type": "application/json"}
        for path in ("/runs", "/runs/run_1/answer", "/runs/run_1/tell"):
            assert "more than 1000 bytes" in await _refused(web, "POST", path, 413, json={"task": "x" * 1000})
            assert "more than 1000 bytes" in await _refused(web, "POST", path, 413, data=pieces(), headers=json)
        assert await web.get("/runs") == {"runs": []}
        await web.submit("6 * 7?")


FILE = {"name": "a.txt", "content": base64.b64encode(b"text").decode()}


BODIES: list[tuple[Any, int, str]] = [
    (b"{", 400, "the body is not JSON"),
    (b'{"task": "\\ud800"}', 400, "the body is not JSON"),
    (b"\xff\xfe", 400, "the body is not JSON"),
    (b"[" * 100_000, 400, "the body is not JSON"),
    (b"[]", 422, "the body does not fit"),
    (b"{}", 422, "task does not fit: Field required; the fields here: task, system, model"),
    ({"task": "  "}, 422, "the task is empty"),
    ({"task": "t", "modle": "offline"}, 422, "modle does not fit: Extra inputs are not permitted"),
    ({"task": "t", "budget": {"usd": 1}}, 422, "budget.usd does not fit"),
    ({"task": "t", "budget": {"cost_usd": -1}}, 422, "a budget's limit is -1"),
    ({"task": "t", "max_steps": 0}, 422, "max_steps is 0"),
    ({"task": "t", "model": "nobody:nothing"}, 422, "nobody"),
    ({"task": "t", "system": "nothing"}, 422, "nothing"),
    ({"task": "t", "labels": {"a": 1}}, 422, "labels.a does not fit"),
    ({"task": "t", "session": " "}, 422, "the session has no name"),
    ({"task": "t", "files": [{**FILE, "name": "../a.txt"}]}, 422, "is no plain file name"),
    ({"task": "t", "files": [{**FILE, "name": "/etc/passwd"}]}, 422, "is no plain file name"),
    ({"task": "t", "files": [{**FILE, "name": ".."}]}, 422, "is no plain file name"),
    ({"task": "t", "files": [{**FILE, "name": "a\u0000.txt"}]}, 422, "is no plain file name"),
    ({"task": "t", "files": [{**FILE, "content": "%%%"}]}, 422, "files.0.content does not fit"),
    ({"task": "t", "files": [{**FILE, "content": ""}]}, 422, "a.txt is empty"),
    ({"task": "t", "files": [FILE, FILE]}, 422, "two files are named 'a.txt'"),
]


async def test_what_does_not_fit_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        for body, code, sentence in BODIES:
            options = {"data": body} if isinstance(body, bytes) else {"json": body}
            headers = {"Content-Type": "application/json"}
            said = await _refused(web, "POST", "/runs", code, headers=headers, **options)
            assert sentence in said and "agentorchestra-upload" not in said, body
        assert await web.get("/runs") == {"runs": []}


async def test_only_json_is_read(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            said = await _refused(web, "POST", "/runs", 415, data=b'{"task": "t"}', headers={"Content-Type": kind})
            assert "application/json" in said


async def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    bodies = {"answer": {"answer": "a"}, "approve": {"question": "/1.x#1", "code": "c"}, "tell": {"text": "t"}}
    async with served(tmp_path) as web:
        for method, path in ROUTES[2:-1]:
            body = bodies.get(path.rpartition("/")[2], {}) if method == "POST" else None
            assert "no run 'run_1' in this workspace" in await _refused(web, method, path, 404, json=body)
        for path in ("/nothing", "/", "/runs/", "/runs/run_1/", "/runs/run_1/nothing"):
            assert "the runs are at /runs" in await _refused(web, "GET", path, 404)
        assert "DELETE is not allowed at /runs" in await _refused(web, "DELETE", "/runs", 405)
        assert "limit is 0" in await _refused(web, "GET", "/runs?limit=0", 422)
        assert "limit is 'x'" in await _refused(web, "GET", "/runs?limit=x", 400)


async def test_a_bug_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(**_: object) -> None:
        raise RuntimeError("a secret of the program")

    async with served(tmp_path) as web:
        monkeypatch.setattr(web.ws.runs, "list", broken)
        said = await _refused(web, "GET", "/runs", 500)
        assert "this is a bug in agentorchestra: RuntimeError" in said and "secret" not in said


async def test_without_the_lifespan_it_says_so(tmp_path: Path) -> None:
    app = asgi(Workspace(tmp_path / "ws"), token=TOKEN)
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode())]
    for method, path in ROUTES:
        sent: list[Any] = []

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        async def receive() -> Any:
            raise AssertionError("nothing is read")

        scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
        await app(scope, receive, send)
        assert sent[0]["status"] == 503 and b"the workspace is not open" in sent[1]["body"]
    assert not (tmp_path / "ws").exists()


def test_the_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['starlette'] = None\n"
        "import agentorchestra, agentorchestra.web\n"
        "from agentorchestra.core.errors import MissingExtraError\n"
        "try: agentorchestra.web.asgi(None)\n"
        "except MissingExtraError as exc: print(exc)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == (
        "the web interface needs the package starlette, which is not installed; "
        'run: pip install "agentorchestra[web]"\n'
    ), done.stderr


def test_the_room_is_imported_without_the_extra() -> None:
    program = "import agentorchestra.web, sys; print([m for m in ('starlette', 'uvicorn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
