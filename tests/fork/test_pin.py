"""Prompts and tools as a run was started with: kept by hash, used with `pin`, not needed where fingerprints match."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentorchestra import tool
from agentorchestra.core.errors import DivergedError, PinError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import Workspace

TOOLS = '''
from agentorchestra import tool

RATE = 2

@tool(effect="pure")
def convert(amount: int) -> int:
    """Convert an amount.

    Args:
        amount: in euros.
    """
    return amount * RATE

@tool(effect="composite")
async def confirm(ctx) -> str:
    """Ask whether to go on."""
    return await ctx.ask("Go on?")
'''


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's module with tools, which can be rewritten."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "own_tools.py"
    path.write_text(TOOLS, encoding="utf-8")
    yield path
    sys.modules.pop("own_tools", None)


def _loaded() -> ModuleType:
    """The module as another process would import it now."""
    sys.modules.pop("own_tools", None)
    importlib.invalidate_caches()
    import linecache

    linecache.clearcache()
    return importlib.import_module("own_tools")


def _rewritten(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new) + "#" * len(text), encoding="utf-8")  # another size: no stale bytecode


def _answer(request: ModelRequest) -> Any:
    said = [message.text for message in request.messages if message.role == "tool"]
    match len(said):
        case 0:
            return call("confirm")
        case 1:
            return call("convert", amount=21)
        case _:
            return call("done", answer=said[1])


def _workspace(folder: Path, **options: Any) -> Workspace[Any]:
    module = _loaded()
    client = ScriptedModel(_answer, name="m")
    return Workspace(folder / "ws", tools=[module.convert, module.confirm], models={"m": client}, **options)


async def _waiting(folder: Path) -> str:
    async with _workspace(folder) as ws:
        result = await ws.run("Convert 21 euros.", system="react", model="m")
        assert result.status is RunStatus.WAITING
        await ws.answer(result.run_id, "yes")
        return result.run_id


@pytest.mark.long
async def test_texts_are_kept_once_and_named_by_the_manifest(tmp_path: Path, program: Path) -> None:
    run_id = await _waiting(tmp_path)
    async with _workspace(tmp_path) as ws:
        record = await ws.store.get_run(run_id)
        assert record is not None
        pins = record.manifest.tools
        assert pins["convert"].source == pins["confirm"].source != ""
        assert (await ws.store.get_blob(pins["convert"].source)).decode() == program.read_text(encoding="utf-8")
        prompt = record.manifest.prompts["react"]
        assert (await ws.store.get_blob(prompt.source)).decode() == ws.catalog.prompts.get("react").text
        again = await ws.create("Convert 1 euro.", model="m")
        other = await ws.store.get_run(again)
        assert other is not None
        assert other.manifest.tools == pins


async def test_a_changed_tool_goes_on_while_fingerprints_match_and_says_so(tmp_path: Path, program: Path) -> None:
    run_id = await _waiting(tmp_path)
    _rewritten(program, "amount * RATE", "amount * RATE + 0")
    async with _workspace(tmp_path) as ws:
        result = await ws.resume(run_id)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "42")
        notes = [e.body["message"] for e in await ws.log.events(run_id) if e.type == "noted"]
        assert [note for note in notes if note.startswith("tool convert changed since the run was started")]


async def test_another_version_of_the_distribution_is_written_down_and_never_compared(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentorchestra.workspace.creation.distribution", lambda: "0.0.1")
    run_id = await _waiting(tmp_path)
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(tmp_path))
    async with _workspace(tmp_path) as ws:
        record = await ws.store.get_run(run_id)
        assert record is not None
        assert record.manifest.distribution == "0.0.1"
        assert (await ws.resume(run_id)).answer == "42"
        assert (await ws.replay(run_id)).answer == "42"
        assert not [e for e in await ws.log.events(run_id) if e.type == "noted"]


@pytest.mark.long
async def test_the_file_around_a_tool_may_change(tmp_path: Path, program: Path) -> None:
    run_id = await _waiting(tmp_path)
    _rewritten(program, "RATE = 2", "RATE = 3")
    async with _workspace(tmp_path) as ws:
        # The function is the same: its hash does not cover what it uses, so today's module holds.
        assert (await ws.resume(run_id)).answer == "63"
        assert not [e for e in await ws.log.events(run_id) if e.type == "noted"]


@pytest.mark.long
async def test_an_incompatible_schema_is_todays_and_pin_brings_the_old_one_back(tmp_path: Path, program: Path) -> None:
    run_id, other = await _waiting(tmp_path), await _waiting(tmp_path)
    _rewritten(program, "amount: int) -> int", "amount: int, currency: str) -> int")
    async with _workspace(tmp_path) as ws:
        with pytest.raises(DivergedError, match="tool schemas changed: convert"):
            await ws.replay(run_id)
        result = await ws.resume(run_id)
        assert result.status is RunStatus.COMPLETED and "currency" in result.answer  # the call did not fit any more
        notes = [e.body["message"] for e in await ws.log.events(run_id) if e.type == "noted"]
        assert any(note.endswith("its arguments: currency is new and required (a major change)") for note in notes)
        (change,) = [note for note in notes if "on the run asks otherwise than it did before" in note]
        assert "tool schemas changed: convert" in change
        assert (await ws.replay(run_id)).answer == result.answer
        pinned = await ws.resume(other, pin=True)
        assert (pinned.status, pinned.answer) == (RunStatus.COMPLETED, "42")
        assert (await ws.replay(other, pin=True)).answer == "42"
        with pytest.raises(DivergedError):
            await ws.replay(other)


@pytest.mark.long
async def test_a_tool_that_is_gone_comes_back_with_pin(tmp_path: Path, program: Path) -> None:
    run_id = await _waiting(tmp_path)
    _rewritten(program, '@tool(effect="pure")\ndef convert', "def gone")
    module = _loaded()
    async with Workspace(tmp_path / "ws", tools=[module.confirm], models={"m": ScriptedModel(_answer, name="m")}) as ws:
        result = await ws.resume(run_id, pin=True)
        assert result.answer == "42"


async def test_a_changed_prompt_is_todays_and_pin_brings_the_old_one_back(tmp_path: Path, program: Path) -> None:
    run_id, other = await _waiting(tmp_path), await _waiting(tmp_path)
    async with _workspace(tmp_path) as ws:
        text = ws.catalog.prompts.get("react").text
    (tmp_path / "ws" / "prompts").mkdir()
    (tmp_path / "ws" / "prompts" / "react.md").write_text(f"{text}\nBe brief.\n", encoding="utf-8")
    async with _workspace(tmp_path) as ws:
        result = await ws.resume(run_id)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "42")
        events = await ws.log.events(run_id)
        notes = [e.body["message"] for e in events if e.type == "noted"]
        assert any("message 0 (system) changed" in note for note in notes)
        assert any("Be brief." in str(e.body) for e in events if e.type == "started")
        pinned = await ws.resume(other, pin=True)
        assert (pinned.status, pinned.answer) == (RunStatus.COMPLETED, "42")
        assert not any("Be brief." in str(e.body) for e in await ws.log.events(other) if e.type == "started")


async def test_a_tool_that_no_module_names_cannot_be_had_back(tmp_path: Path, program: Path) -> None:
    def made(extra: bool) -> Any:
        if extra:

            @tool(effect="pure")
            def local(a: int, b: int = 1) -> int:
                """Add."""
                return a + b
        else:

            @tool(effect="pure")
            def local(a: int) -> int:
                """Add."""
                return a

        return local

    client = ScriptedModel(_answer, name="m")
    module = _loaded()
    async with Workspace(
        tmp_path / "ws", tools=[made(False), module.confirm, module.convert], models={"m": client}
    ) as ws:
        run_id = (await ws.run("Convert.", system="react", model="m")).run_id
        await ws.answer(run_id, "yes")
    async with Workspace(
        tmp_path / "ws",
        tools=[made(True), module.confirm, module.convert],
        models={"m": ScriptedModel(_answer, name="m")},
    ) as ws:
        with pytest.raises(PinError, match="tool 'local' changed since the run was started, and its text was not kept"):
            await ws.resume(run_id, pin=True)


@pytest.mark.long
async def test_a_kept_text_that_cannot_be_executed_any_more(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "own_helper.py"
    helper.write_text("FACTOR = 1\n", encoding="utf-8")
    program.write_text(f"from own_helper import FACTOR\n{TOOLS}", encoding="utf-8")
    run_id = await _waiting(tmp_path)
    sys.modules.pop("own_helper", None)
    helper.unlink()
    program.write_text(TOOLS.replace("amount: int)", "amount: int, x: int = 1)"), encoding="utf-8")
    async with _workspace(tmp_path) as ws:
        with pytest.raises(PinError, match=r"'convert' as the run was started with cannot be loaded: ModuleNotFound"):
            await ws.resume(run_id, pin=True)
