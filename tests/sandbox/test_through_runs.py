"""The same attempts where they come from: programs of a model in whole runs, through each way that runs them.

And what they print is shown to people without what steers a terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import SandboxSettings, Settings
from agentorchestra.core.spec import RunResult
from agentorchestra.sandbox import Sandbox
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.cli.support import Folder
from tests.sandbox.attempts import ENVIRONMENT, FILES, NETWORK, Attempt
from tests.sandbox.world import BEGAN, world

TRIED = (*FILES, *ENVIRONMENT, *NETWORK)
BATCH = 3
"""Attempts of one run, which would be ended for turning in circles if all of them failed in it."""


def _tool(name: str, argument: str) -> Callable[[str], ModelResponse]:
    return lambda code: decide(calls=[call(name, **{argument: code})])


def _program(code: str) -> ModelResponse:
    return say('{"thinking": "t", "memory": "", "next_goal": "g"}\n```python\n' + code + "\n```")


WAYS: dict[str, tuple[str, Callable[[str], ModelResponse], ModelResponse]] = {
    "python": ("python", _tool("python", "code"), decide(calls=[call("done", answer="over")])),
    "bash": ("bash", _tool("bash", "command"), decide(calls=[call("done", answer="over")])),
    "code": ("python", _program, _program("done(answer='over')")),
}


async def tried(way: str, codes: list[str], folder: Path, files: tuple[Path, ...] = ()) -> tuple[RunResult, list[str]]:
    """A run whose model tries one after the other, and what it was shown after each."""
    _, make, over = WAYS[way]
    shown: list[str] = []

    def at(index: int) -> Callable[[ModelRequest], ModelResponse]:
        def reply(request: ModelRequest) -> ModelResponse:
            if index:
                shown.append("\n".join(message.text for message in request.messages[-2:]))
            return make(codes[index]) if index < len(codes) else over

        return reply

    model = ScriptedModel([at(index) for index in range(len(codes) + 1)])
    options: dict[str, Any] = {"action": "code"} if way == "code" else {}
    settings = Settings(model="scripted", system="react", sandbox=SandboxSettings(backend="bubblewrap"))
    async with Workspace(folder, models={"scripted": model}, settings=settings) as ws:
        result = await ws.run("Try.", files=list(files), **options)
    return result, shown


def everything(folder: Path) -> bytes:
    """All that a workspace holds."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Where commands are run."""
    return Folder(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("way", [one if one == "python" else pytest.param(one, marks=pytest.mark.long) for one in WAYS])
async def test_no_way_out_of_a_run(
    way: str, bubblewrap: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    language = WAYS[way][0]
    attempts: list[Attempt] = [one for one in TRIED if one.language == language][:: 2 if language == "python" else 1]
    with world() as around:
        monkeypatch.setenv("AGENTORCHESTRA_SECRET", around.token)
        codes = [around.code(language, attempt.code) for attempt in attempts]
        shown: list[str] = []
        for start in range(0, len(codes), BATCH):
            batch = codes[start : start + BATCH]
            result, seen = await tried(way, batch, tmp_path / "ws", (around.folder / "given.txt",))
            assert result.answer == "over"
            shown += seen
        assert len(shown) == len(attempts) >= 8
        for attempt, text in zip(attempts, shown, strict=True):
            assert BEGAN in text, f"{attempt.name} was not tried: {text}"
            assert around.evidence(text.encode()) == "", f"{attempt.name}: {text}"
        kept = everything(tmp_path / "ws")
        assert BEGAN.encode() in kept, "the log can be searched as it is"
        assert around.token.encode() not in kept


def test_what_a_program_prints_does_not_steer_a_terminal(bubblewrap: Sandbox, folder: Folder) -> None:
    code = "import sys\nprint('before \\x1b[2J\\x1b]0;title\\x07 \\x9b31m after')\nsys.exit('\\x1b[31mred')"
    _, shown = asyncio.run(tried("python", [code], folder.workspace))
    assert "before" in shown[0]
    for words in (("show", "last"), ("show", "last", "--json"), ("tail", "last"), ("show", "last", "--html", "-")):
        done = folder.run(*words)
        assert "after" in done.out, words
        assert not {char for char in done.out + done.err if char in "\x07\x1b\x9b"}, words
