"""A task is run by the command line, and what came of it is checked."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentorchestra import Workspace

from .task import SITE, Task

Command = Callable[[Sequence[str], Mapping[str, str]], tuple[int, str, str]]
"""Runs `agentorchestra` with these words and further variables; returns exit code, stdout and stderr."""


@dataclass(frozen=True)
class Outcome:
    """What came of a task.

    Attributes:
        problems: what is wrong, a sentence each; nothing if it was solved.
        result: the object that `run --json` prints; empty if it printed none.
    """

    problems: list[str]
    result: dict[str, Any]

    @property
    def requests(self) -> int:
        """Return how many requests the run made to models."""
        return int(self.result.get("usage", {}).get("requests", 0))

    @property
    def tokens(self) -> int:
        """Return its input and output tokens together."""
        usage = self.result.get("usage", {})
        return int(usage.get("input_tokens", 0) + usage.get("output_tokens", 0))


def as_process(words: Sequence[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
    """Run the command in a process of its own, in the current folder."""
    command = [sys.executable, "-m", "agentorchestra", *words]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def run_task(
    task: Task, system: str, made: Path, *, workspace: Path, model: str = "", command: Command = as_process
) -> Outcome:
    """Run a task on a system, and check it.

    Args:
        task: see Task.
        system: its name, as `--system` takes it.
        made: an empty folder, into which the files come that the run made.
        workspace: the folder of the workspace; its settings say which model is asked.
        model: another one; "" for that of the settings.
        command: how `agentorchestra` is run.
    """
    with served(task.pages) as address:
        words = ["run", task.instruction.replace(SITE, address), "--system", system, "--json", "--on-ask", "deny"]
        words += ["--workspace", str(workspace), *(["--model", model] if model else [])]
        words += [word for file in task.files for word in ("--file", str(file))]
        words += [word for one in task.environments for word in ("--environment", one)]
        # The user named the site: it may be read although it is on this machine.
        private = {"AGENTORCHESTRA_WEB__PRIVATE": json.dumps([address.removeprefix("http://")])} if address else {}
        code, out, err = command(words, private)
    if not out.strip():
        return Outcome([f"the command ended with {code}: {err.strip()[-500:]}"], {})
    result = json.loads(out)
    if result["status"] != "completed":
        return Outcome([f"the run ended as {result['status']}: {result['error'] or result['answer']}"], result)
    asyncio.run(_collect(workspace, result, made))
    return Outcome(task.check(result["answer"], made), result)


async def _collect(workspace: Path, result: Mapping[str, Any], made: Path) -> None:
    """Copy the files that a run made: those of its folder, and those that programs left as artifacts."""
    async with Workspace(workspace) as ws:
        for one in result["artifacts"]:
            target = made / Path(one["name"]).name
            target.write_bytes(await ws.files.artifact(result["run_id"], one["name"]))
        folder = ws.files.folder(result["run_id"])
    if folder.is_dir():
        shutil.copytree(folder, made, dirs_exist_ok=True, symlinks=True)


@contextmanager
def served(pages: Mapping[str, str]) -> Iterator[str]:
    """Serve pages on the loopback address until the block ends; gives its address, "" where there are none."""
    if not pages:
        yield ""
        return

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Give the page of the path."""
            text = pages.get(self.path, "").encode()
            self.send_response(200 if text else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
