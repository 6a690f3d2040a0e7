"""`agentorchestra serve` as a process."""

from __future__ import annotations

import signal
import socket
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from benchmarks.serve import measure

from tests.cli.support import PACKAGE_PARENT, Folder, wait_until
from tests.support.patience import LONGEST_S
from tests.support.web_serve import TOKEN, ask, serving


@pytest.fixture
def app(tmp_path: Path) -> Folder:
    """A folder with an application: tools and a scripted model."""
    return Folder(tmp_path).with_app('app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\n')


def test_it_prints_address_and_token_and_serves_the_application(app: Folder) -> None:
    with serving(app) as (started, address):
        assert address.startswith("http://127.0.0.1:")
        assert started.process.stdout is not None
        name, _, token = started.process.stdout.readline().strip().partition(": ")
        assert name == "token" and len(token) >= 32
        run = ask(address, "/runs", token, {"task": "PLAN ask"})["run_id"]
        wait_until(lambda: ask(address, f"/runs/{run}", token)["status"] == "waiting")
        ask(address, f"/runs/{run}/answer", token, {"answer": "blue"})
        wait_until(lambda: ask(address, f"/runs/{run}", token)["status"] == "completed")
        assert "blue" in ask(address, f"/runs/{run}", token)["result"]["answer"]
        started.interrupt()
        ended = started.end()
    assert ended.code == 0 and token not in ended.err
    assert app.assert_readable(run)["result"]["status"] == "completed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.long
def test_a_signal_hands_on_what_runs_and_it_can_be_resumed(app: Folder, number: signal.Signals) -> None:
    app.hold()
    env = {"AGENTORCHESTRA_TOKEN": TOKEN, "AGENTORCHESTRA_SERVE__STOP_S": "0.5"}
    with serving(app, env=env) as (started, address):
        run = ask(address, "/runs", TOKEN, {"task": "PLAN nap"})["run_id"]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        stream = urllib.request.urlopen(urllib.request.Request(f"{address}/runs/{run}/events", headers=headers))
        wait_until(lambda: (app.path / "slow.txt").exists())
        started.process.send_signal(number)
        ended = started.end()
        with stream:
            assert b"event: end" not in stream.read()
    assert ended.code == 0 and TOKEN not in ended.out + ended.err
    assert app.assert_readable(run)["result"]["status"] == "running"
    app.let_go()
    resumed = app.run("resume", run, "--json")
    assert resumed.json["status"] == "completed", resumed.err


@pytest.mark.long
def test_a_second_signal_waits_for_no_request(app: Folder) -> None:
    with serving(app, env={"AGENTORCHESTRA_TOKEN": TOKEN}) as (started, address):
        run = ask(address, "/runs", TOKEN, {"task": "PLAN sleep"})["run_id"]
        wait_until(lambda: (app.path / "slow.txt").exists())
        port = int(address.rpartition(":")[2])
        head = f"POST /runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        with socket.create_connection(("127.0.0.1", port)) as half:
            half.sendall(head.encode())
            assert ask(address, f"/runs/{run}", TOKEN)["status"] == "running"
            started.interrupt()
            wait_until(lambda: not _listens(port))
            started.interrupt()
            ended = started.end()
    assert ended.code == 0
    assert app.assert_readable(run)["result"]["status"] == "running"


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.long
def test_a_run_of_the_command_line_is_followed(app: Folder) -> None:
    with serving(app, env={"AGENTORCHESTRA_TOKEN": TOKEN}) as (started, address):
        with app.start("run", "PLAN nap", "--json") as other:
            wait_until(lambda: (app.path / "slow.txt").exists())
            (run,) = app.ids()
            headers = {"Authorization": f"Bearer {TOKEN}"}
            request = urllib.request.Request(f"{address}/runs/{run}/events", headers=headers)
            with urllib.request.urlopen(request, timeout=LONGEST_S) as stream:
                lines = stream.read().decode().splitlines()
            assert other.end().code == 0
        ids = [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]
        assert ids == list(range(1, len(ids) + 1)) and "event: end" in lines
        assert [event["seq"] for event in app.assert_readable(run)["events"]] == ids
        started.interrupt()
        assert started.end().code == 0


def test_other_machines_need_a_token_of_the_users(app: Folder) -> None:
    refused = app.run("serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.code == 2 and refused.out == ""
    assert refused.error.startswith("0.0.0.0 can be reached from other machines")
    assert "AGENTORCHESTRA_TOKEN" in refused.error
    refused = app.run("serve", "--host", "0.0.0.0", "--port", "0", "--token", "short")
    assert refused.code == 2 and "at least 16" in refused.error


def test_an_address_that_is_taken_is_named(app: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = app.run("serve", "--port", str(port))
    assert refused.code == 2 and f"127.0.0.1 port {port} cannot be listened at" in refused.error


def test_the_missing_extra_is_named(app: Folder) -> None:
    app.write("sitecustomize.py", "import sys\nsys.modules['uvicorn'] = None\n")
    refused = app.run("serve", env={"PYTHONPATH": f"{app.path}:{PACKAGE_PARENT}"})
    assert refused.code == 2 and 'pip install "agentorchestra[web]"' in refused.error


@pytest.mark.long
@pytest.mark.parametrize(
    ("posts", "breaks"),
    [
        pytest.param(12, ["term", "kill"], id="few"),
        pytest.param(200, ["term", "kill"], id="many", marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
async def test_of_many_posts_at_once_none_is_lost_or_done_twice(tmp_path: Path, posts: int, breaks: list[str]) -> None:
    """Clients that post again what is not answered; the server is stopped, killed, and started again meanwhile."""
    found = await measure(tmp_path, posts=posts, latency_s=0.2, breaks=breaks, max_runs=4 if posts < 100 else None)
    assert found.wrong == [] and found.statuses == {"completed": posts}
    assert posts <= found.driven <= 2 * posts  # what was under way was begun again, nothing without need
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


@pytest.mark.long
async def test_as_many_runs_as_there_are_posts_do_not_wait_for_connections(tmp_path: Path) -> None:
    """All are driven at the same time, and ask the model at the same time."""
    found = await measure(tmp_path, posts=200, latency_s=1.0, breaks=[], max_runs=200)
    assert found.wrong == [] and found.statuses == {"completed": 200}
    assert found.driven == 200


POISON = """
import os, signal
from agentorchestra import Workspace, tool
from agentorchestra.testing import ScriptedModel, call

@tool(effect="read")
async def crash() -> str:
    "End the process."
    os.kill(os.getpid(), signal.SIGKILL)

def workspace():
    def script(request):
        return call("crash") if "PLAN crash" in request.messages[1].text else call("done", answer="well")
    return Workspace(tools=[crash], models={"scripted": ScriptedModel(script)})
"""


@pytest.mark.long
def test_a_run_that_kills_its_server_is_given_up(app: Folder) -> None:
    app.write("app.py", POISON)
    for attempt in range(4):  # the first time it still got somewhere: the model was asked
        with serving(app, env={"AGENTORCHESTRA_TOKEN": TOKEN}) as (started, address):
            if attempt == 0:
                with suppress(OSError):  # it may die before it has answered
                    ask(address, "/runs", TOKEN, {"task": "PLAN crash"})
            assert started.process.wait(LONGEST_S) == -signal.SIGKILL
    (run,) = app.ids()
    with serving(app, env={"AGENTORCHESTRA_TOKEN": TOKEN}) as (started, address):
        wait_until(lambda: ask(address, f"/runs/{run}", TOKEN)["status"] == "failed")
        assert "ended its driver 3 times" in ask(address, f"/runs/{run}", TOKEN)["result"]["error"]
        other = ask(address, "/runs", TOKEN, {"task": "go"})["run_id"]
        wait_until(lambda: ask(address, f"/runs/{other}", TOKEN)["status"] == "completed")
        started.interrupt()
        assert started.end().code == 0


@pytest.mark.long
def test_a_run_of_a_killed_command_is_abandoned_until_somebody_takes_it_up(app: Folder) -> None:
    def killed() -> str:
        (app.path / "slow.txt").unlink(missing_ok=True)
        with app.start("run", "PLAN nap") as process:
            wait_until(lambda: (app.path / "slow.txt").exists())
            process.process.kill()
        return app.ids()[0]

    app.hold()
    first, second = killed(), killed()
    app.let_go()
    listed = app.run("runs")
    assert listed.out.count("  abandoned  ") == 2 and "agentorchestra resume --abandoned" in listed.err
    with serving(app, env={"AGENTORCHESTRA_TOKEN": TOKEN}) as (started, address):
        about = {one["run_id"]: one for one in ask(address, "/runs", TOKEN)["runs"]}
        assert about[first]["abandoned"] and not about[first]["queued"]
        started.interrupt()
        assert started.end().code == 0
    taken = app.run("resume", "--abandoned", "--json")
    assert taken.code == 0 and [one["status"] for one in taken.json] == ["completed"] * 2
    assert app.run("resume", "--abandoned").out == "no run is abandoned\n"
    app.hold()
    third = killed()
    app.let_go()
    with serving(app, "--take-up", "all", env={"AGENTORCHESTRA_TOKEN": TOKEN}) as (started, address):
        wait_until(lambda: ask(address, f"/runs/{third}", TOKEN)["status"] == "completed")
        started.interrupt()
        assert started.end().code == 0
    assert {first, second, third} == {*app.ids()}


def test_options_of_resume_that_exclude_each_other(app: Folder) -> None:
    for words, sentence in (
        (("--due", "--abandoned"), "name a RUN, or give --due or --abandoned, one of the three"),
        ((), "name a RUN, or give --due or --abandoned, one of the three"),
        (("--abandoned", "--pin"), "--abandoned takes runs as they were left; for other limits or --pin name a RUN"),
    ):
        refused = app.run("resume", *words)
        assert refused.code == 2 and refused.error.endswith(sentence)
