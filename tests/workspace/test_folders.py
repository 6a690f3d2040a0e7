"""Folders given to runs: thousands of files, the second time, resumes, teams, cancellation."""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import threading
from pathlib import Path

import pytest

from agentorchestra.core.errors import FileInputError
from agentorchestra.core.events import EffectStarted
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.tools.files import storage as keep
from agentorchestra.workspace import Workspace
from tests.support.runs import whole_runs
from tests.systems.support import seen

COUNT = 3_000
QUESTION = "By whom was the heron of Arnstadt drawn?"


def made(folder: Path, count: int, *, fact: int, painter: str = "Ilse Brandt") -> Path:
    """Small files in folders by year; one of them holds the fact."""
    chance = random.Random(count)
    words = ["".join(chance.choices("abcdefghiklmnoprstuw", k=chance.randint(3, 9))) for _ in range(500)]
    for number in range(count):
        path = folder / str(1990 + number % 30) / f"note{number:04}.{'md' if number % 3 else 'txt'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(chance.choices(words, k=8)).capitalize() + "." for _ in range(4)]
        if number == fact:
            lines[2] = f"The heron of Arnstadt was drawn by {painter}."
        path.write_text(f"# Note {number}\n\n" + "\n".join(lines) + "\n")
    return folder


def indexed(workspace: Path) -> dict[str, float]:
    """Hash by hash when it was read into the index."""
    with sqlite3.connect(workspace / "index.db") as db:
        return dict(db.execute("SELECT sha256, at FROM documents"))


@pytest.mark.long
async def test_one_fact_among_thousands_of_files(tmp_path: Path) -> None:
    docs = made(tmp_path / "docs", COUNT, fact=1234)
    name = next(path.relative_to(tmp_path).as_posix() for path in docs.rglob("note1234.*"))
    async with Workspace(tmp_path / "ws") as ws:
        first = await ws.run(QUESTION, files=[docs], model="offline", system="react")
        assert first.status is RunStatus.COMPLETED and "Ilse Brandt" in first.answer
        (source,) = first.sources
        assert (source.source, source.place) == (name, "line 5")
        assert len((await ws.runs.list())[0].manifest.files) == COUNT
        assert first.usage.input_tokens < 15_000  # a prompt that lists them all has a hundred thousand
        read = indexed(tmp_path / "ws")
        kept = set((tmp_path / "ws" / "files").glob("??/*"))
        assert len(read) == len(kept) == COUNT

        # A second time: nothing is converted, and nothing is kept twice.
        second = await ws.run(QUESTION, files=[docs], model="offline", system="react")
        assert second.sources == first.sources
        assert indexed(tmp_path / "ws") == read
        assert set((tmp_path / "ws" / "files").glob("??/*")) == kept

        # One file changed, one is gone: only the one is read, and the other is not found.
        (docs / "1990" / "note0000.txt").write_text("The otter of Ulm was drawn by Ada Kurz.\n")
        (tmp_path / name).unlink()
        third = await ws.run(QUESTION, files=[docs], model="offline", system="react")
        assert "Ilse Brandt" not in third.answer and not third.sources
        fourth = await ws.run("By whom was the otter of Ulm drawn?", files=[docs], model="offline", system="react")
        assert "Ada Kurz" in fourth.answer
        assert len(indexed(tmp_path / "ws")) == COUNT + 1 and read.items() <= indexed(tmp_path / "ws").items()


async def test_a_team_searches_a_folder(tmp_path: Path) -> None:
    docs = made(tmp_path / "docs", 60, fact=7)
    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run(QUESTION, files=[docs], model="offline")
        assert "Ilse Brandt" in result.answer and result.sources[0].source.startswith("docs/1997/note0007")
        effects = [e.data.effect for e in await ws.log.events(result.run_id) if isinstance(e.data, EffectStarted)]
        analyzers = [one for one in effects if str(one.get("component", "")).startswith("deep_analyzer@")]
        assert len(analyzers) == 1


@pytest.mark.long
async def test_a_prompt_lists_some_and_counts_the_others(tmp_path: Path) -> None:
    docs = made(tmp_path / "docs", 600, fact=7)
    (docs / "empty.txt").write_text("")
    plan = tmp_path / "plan.csv"
    plan.write_text("year,work\n1990,heron\n")

    def narrowed(request: ModelRequest) -> ModelResponse:
        listed = re.findall(r"^- (\S+) \((\S+), \d+ bytes\)$", request.messages[1].text, re.MULTILINE)
        results = [message.text for message in request.messages if message.role == "tool"]
        if results:
            return decide(calls=[call("done", answer=f"{len(listed)} {listed[0][0]} | {results[-1]}")])
        return decide(calls=[call("search_files", query="heron", files="docs/1997")])

    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("Look.", files=[docs, plan], model=ScriptedModel(narrowed), system="react")
        assert result.answer.startswith("40 plan.csv | ")
        assert "The heron of Arnstadt was drawn by Ilse Brandt." in result.answer
        assert "Searched 20 of 20 files matching 'docs/1997'." in result.answer
        (record,) = await whole_runs(ws)
        assert record.manifest.left_out == (
            "Left out of docs/: unreadable: 1 (docs/empty.txt is empty; give a file with content)."
        )
    prompts: list[str] = []

    def read(request: ModelRequest) -> ModelResponse:
        prompts.append(seen(request))
        return decide(calls=[call("done", answer="over")])

    async with Workspace(tmp_path / "ws") as ws:
        await ws.run("Look.", files=[docs, plan], model=ScriptedModel(read), system="react")
    assert "and 561 more that are not listed here: 601 files in all. By folder:\n  " in prompts[0]
    assert "\n  docs/1990: 20 files: " in prompts[0] and "\n  and 11 more folders\n" in prompts[0]
    assert "Left out of docs/: unreadable: 1" in prompts[0]


async def test_a_resume_reads_the_same_bytes(tmp_path: Path) -> None:
    docs = made(tmp_path / "docs", 50, fact=7)
    async with Workspace(tmp_path / "ws") as ws:
        run = await ws.create(QUESTION, files=[docs], model="offline", system="react")
    made(docs, 50, fact=7, painter="Somebody Else")
    for path in list(docs.rglob("*.txt")):
        path.unlink()
    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.resume(run)
        assert "Ilse Brandt" in result.answer
        again = await ws.run(QUESTION, files=[docs], model="offline", system="react")
        assert "Somebody Else" in again.answer


async def test_a_cancelled_start_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = made(tmp_path / "docs", 300, fact=7)
    begun, go_on = threading.Event(), threading.Event()
    look = keep._at_first_sight

    def held(path: Path) -> str | None:
        begun.set()
        go_on.wait()
        return look(path)

    monkeypatch.setattr(keep, "_at_first_sight", held)
    async with Workspace(tmp_path / "ws") as ws:
        task = asyncio.create_task(ws.create(QUESTION, files=[docs], model="offline"))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        assert await ws.runs.list() == []
    assert not list((tmp_path / "ws" / "runs").glob("*/files"))
    assert not list((tmp_path / "ws" / "files").glob("??/*"))


async def test_too_many_files_are_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = made(tmp_path / "docs", 30, fact=7)
    monkeypatch.setattr(keep, "MAX_FILES", 20)
    model = ScriptedModel([])
    async with Workspace(tmp_path / "ws") as ws:
        with pytest.raises(FileInputError, match="30 files were given; at most 20 belong to one task: give fewer"):
            await ws.run(QUESTION, files=[docs], model=model)
        assert await ws.runs.list() == []
