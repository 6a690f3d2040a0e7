"""Programs killed with SIGKILL in their midst, and resumed by the command line in a fresh process."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.events import Event
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ModelResponse
from agentorchestra.testing import LoopbackModelServer, say
from tests.chaos.support import kill_points, only_run, python, read_log

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

TOP = """
import asyncio
first = lookup("mast")
print(note(first))
found = await asyncio.gather(*[helper(task=side) for side in ("left", "right")])
print(found, lookup("keel"))
"""
NOTES = {"/1.react/3.program#2", *(f"/1.react/3.program/{n}.helper/1.helper/2.program#2" for n in (3, 4))}


def answer(body: dict[str, Any]) -> ModelResponse:
    """The next decision of whoever asks, from what the request shows; it names the request it answers."""
    texts = [str(message["content"]) for message in body["messages"]]
    mark = sha256_json(body["messages"])
    printed = next((text for text in texts if text.startswith("Result of program")), None)
    if printed is not None:
        words = re.sub(r"</?content[^>]*>|Result of .*:\n", "", printed).split()
        code = f"done(answer={' '.join(words)!r})"
    elif "<task>\nGo." in texts[1]:
        code = TOP
    else:
        code = f"x = lookup('{texts[1].split('<task>')[1].split()[0]}')\nprint(note(x))"
    return say(f'{{"thinking": "{mark}"}}\n```python\n{code}\n```')


@pytest.fixture
async def server() -> AsyncIterator[LoopbackModelServer]:
    async with LoopbackModelServer(answer) as made:
        yield made


class Case:
    """One run in a folder of its own."""

    def __init__(self, folder: Path, server: LoopbackModelServer) -> None:
        self.folder, self.server = folder, server
        shutil.copy(Path(__file__).with_name("code_program.py"), folder / "app.py")
        settings = [
            'app = "app:workspace"', 'model = "code"', 'system = "react"', 'action = "code"', "[models.code]",
            'model = "openai:code"', f'base_url = "{server.base_url}"', 'api_key_env = ""',
        ]  # fmt: skip
        (folder / "agentorchestra.toml").write_text("\n".join(settings))

    async def cli(self, *words: str, kill_at: str = "") -> tuple[dict[str, Any], list[str]]:
        """A command in a fresh process: what it printed, and the digests of the requests it made."""
        before = self.server.count
        whole: list[str | Path] = ["-m", "agentorchestra.cli", *words, "--workspace", self.folder / "ws", "--json"]
        out = await asyncio.to_thread(python, whole, kill_at=kill_at)
        asked = [sha256_json(body["messages"]) for body in self.server.requests[before:]]
        return json.loads(out) if out else {}, asked

    async def log(self) -> list[Event]:
        """The log of its run."""
        return await read_log(self.folder / "ws", await only_run(self.folder / "ws"))

    def lines(self, name: str) -> list[str]:
        """The keys of the calls that a tool executed."""
        path = self.folder / name
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def answered(events: list[Event]) -> set[str]:
    """The requests whose answers the log holds."""
    text = "".join(json.dumps(e.body.get("outcome", {}).get("value")) for e in events if e.type == "completed")
    return set(re.findall(r'thinking\\*": \\*"([0-9a-f]{64})', text))


async def check(folder: Path, server: LoopbackModelServer, point: str) -> None:
    """Run, killed at the point, then resumed: nothing that is recorded is done, asked or paid again."""
    folder.mkdir()
    case = Case(folder, server)
    _, asked = await case.cli("run", "Go.", kill_at=point)
    events = await case.log()
    known, done_before = answered(events), {str(e.span) for e in events if e.type == "completed"}
    executed = Counter(case.lines("notes.txt") + case.lines("lookups.txt"))
    result, again = await case.cli("resume", events[0].run)
    assert result["status"] == "completed", (point, result)
    assert not known & set(again), f"{point}: a request was asked although its answer is recorded"
    assert len(set(again)) == len(again) and len(set(asked)) == len(asked), point
    after = Counter(case.lines("notes.txt") + case.lines("lookups.txt"))
    assert all(after[key] == executed[key] for key in done_before), f"{point}: what is recorded was executed again"
    notes = Counter(case.lines("notes.txt"))
    assert notes.keys() <= NOTES and max(notes.values(), default=0) <= 1, (point, notes)
    events = await case.log()
    doubtful = {str(e.span) for e in events if e.body.get("outcome", {}).get("status") == "uncertain"}
    assert doubtful <= NOTES, point
    if doubtful:
        # What may have happened is an error of the call: the program, or the helper's, hears of it.
        assert "note was started before" in result["answer"], (point, result)
    else:
        assert notes.keys() == NOTES and "KEEL" in result["answer"], (point, result)
    await case.cli("replay", events[0].run)


async def points(tmp_path: Path, server: LoopbackModelServer) -> list[str]:
    """All points inside the program of an undisturbed run."""
    (tmp_path / "whole").mkdir()
    case = Case(tmp_path / "whole", server)
    result, _ = await case.cli("run", "Go.")
    assert result["answer"] == "noted MAST ['noted LEFT', 'noted RIGHT'] KEEL"
    return [point for point in kill_points(await case.log()) if "/1.react/3.program" in point]


CHOSEN = (
    "after_record:/1.react/3.program#1",
    "after:/1.react/3.program#2",
    "after_record:/1.react/3.program#2",
    "in_record:/1.react/3.program/3.helper/1.helper/2.program#2",
    "after_record:/1.react/3.program#4",
    "before:/1.react/3.program#5",
    "in_record:/1.react#3",
)


@pytest.mark.parametrize("point", [pytest.param(one, marks=pytest.mark.long) for one in CHOSEN[::2]])
async def test_a_program_killed_at_a_chosen_point(tmp_path: Path, server: LoopbackModelServer, point: str) -> None:
    await check(tmp_path / "case", server, point)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
async def test_a_program_killed_at_every_point(tmp_path: Path, server: LoopbackModelServer, part: int) -> None:
    for number, point in enumerate((await points(tmp_path, server))[part::4]):
        await check(tmp_path / f"case{number}", server, point)


@pytest.mark.long
async def test_the_chosen_points_are_points(tmp_path: Path, server: LoopbackModelServer) -> None:
    found = await points(tmp_path, server)
    assert {one for one in CHOSEN if "program" in one} <= set(found)
