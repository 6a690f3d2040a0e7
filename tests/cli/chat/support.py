"""A chat as its user has it: the command on a real terminal, with an application whose model is scripted."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.cli.screen import ProcessScreen
from tests.cli.support import TOOLS, WORKSPACE, Folder, clean_environment

NAMES = {"ask_user": "inquire", "read_notes": "notes", "send_mail": "mail"}
"""The tools of other applications, by the names that they have in a chat."""

APP = (
    re.sub("|".join(NAMES), lambda found: NAMES[found[0]], TOOLS)
    + '''
import re


@tool(effect="read")
async def wait(number: int) -> str:
    """Wait while a file is there.

    Args:
        number: makes it different from others.
    """
    with Path("waits.txt").open("a", encoding="utf-8") as waits:
        waits.write(f"{number}\\n")
    while Path("held").exists():
        await asyncio.sleep(0.02)
    return f"waited {number}"


PLANS = {
    "MAIL": [call("notes"), MAIL],
    "WAIT": [call("wait", number=1), call("wait", number=2)],
    "EDIT": [call("files_write", path="a.txt", content="one\\ntwo\\n", overwrite=True)],
    "INQUIRE": [call("inquire", question="Which colour?")],
}
STEERS = "# Red \\x1b[31mtext\\x07 &#x202e;turned [a link](https://example.org/x)"


def script(request):
    messages = request.messages
    orders = [(at, word) for at, one in enumerate(messages) if one.role == "user"
              for word in re.findall(r"\\b(?:MAIL|WAIT|EDIT|INQUIRE|STEER|SAY|READ)\\b", one.text)]
    at, word = orders[-1] if orders else (0, "SAY")
    results = [one.text for one in messages[at:] if one.role == "tool"]
    plan = PLANS.get(word, [])
    if len(results) < len(plan):
        return plan[len(results)]
    texts = " ".join(one.text for one in messages)
    told = sorted({each for each in re.findall(r"hurry \\w+", texts)})
    if word == "STEER":
        return STEERS
    rent = "900 euros" if "900 euros" in texts else "unknown"
    return f"**Answer** {len(orders)}: {word} rent {rent}; {'; '.join([*results, *told])}"


class Streamer(ScriptedModel):
    """Streams the beginning of an answer in plain words, and waits there while a file says so."""

    async def request(self, request, *, media=None, on_delta=None):
        response = await super().request(request, media=media, on_delta=None)
        if on_delta is not None and response.text and not response.tool_calls:
            on_delta(response.text[:12])
            while Path("streams").exists():
                await asyncio.sleep(0.02)
            on_delta(response.text[12:])
        return response


def workspace():
    return Workspace(tools=[notes, mail, wait, inquire], models={"scripted": Streamer(script)})
'''
)
SETTINGS = 'app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\nfinish = "text"\n'


class ChatFolder(Folder):
    """A folder in which chats are held."""

    def with_app(self, settings: str = SETTINGS) -> ChatFolder:
        """Put the application and its settings there."""
        self.write("app.py", APP)
        self.write("agentorchestra.toml", settings)
        return self

    def hold(self, name: str = "held") -> None:
        """The tool `wait` is at work (or with `streams`, the answer is cut off) until `let_go`."""
        (self.path / name).touch()

    def let_go(self, name: str = "held") -> None:
        """Let it end."""
        (self.path / name).unlink()

    def statuses(self) -> list[str]:
        """How the runs of the workspace stand, oldest first, without another process."""
        database = self.path / WORKSPACE / "workspace.db"
        if not database.exists():
            return []
        with closing(sqlite3.connect(database)) as connection:
            return [row[0] for row in connection.execute("SELECT status FROM runs ORDER BY id")]

    @contextmanager
    def chat(self, *words: str, columns: int = 100, lines: int = 40, **environment: str) -> Iterator[ChatTerminal]:
        """The command `agentorchestra chat` on a terminal of its own."""
        terminal = ChatTerminal(columns=columns, lines=lines)
        process = terminal.start_warm(
            ["-m", "agentorchestra", *(words or ("chat",))],
            cwd=self.path,
            environ={**clean_environment(), "TERM": "xterm-256color", **self.environment, **environment},
        )
        terminal.process = process
        try:
            yield terminal
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(30)
            terminal.end()
            terminal.close()
        assert "Traceback" not in terminal.everything


class ChatTerminal(ProcessScreen):
    """The terminal of a chat."""

    process: subprocess.Popen[str]

    @property
    def everything(self) -> str:
        """All that was ever written to it."""
        return self.written.decode("utf-8", "replace")

    def shows(self, *texts: str) -> None:
        """Until all of these are on it at once."""
        self.wait(lambda: all(text in self.text for text in texts))

    def says(self, line: str, *texts: str) -> None:
        """Type a line, and wait until all of these are on the screen."""
        self.type(f"{line}\r")
        self.shows(*texts)

    def paste(self, text: str) -> None:
        """Paste a text, as terminals mark it; a long one is written piece by piece, as fast as it is read."""
        data = f"\x1b[200~{text}\x1b[201~".encode()
        while data:
            data = data[os.write(self.ours, data[:4096]) :]

    def leave(self, how: str = "\x04") -> int:
        """Leave, by Ctrl-D where nothing else is typed; the exit code at the end of the process."""
        self.type(how)
        code = self.process.wait(60)
        self.end()
        return code


def outbox(folder: Path) -> list[str]:
    """The mails that were sent."""
    path = folder / "outbox.txt"
    return path.read_text().splitlines() if path.exists() else []
