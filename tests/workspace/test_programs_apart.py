"""Workspaces of one process whose programs have modules of the same names: each has its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentorchestra import Workspace, open_workspace
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide
from tests.support.runs import whole_runs

APP = """
from agentorchestra import Workspace, tool
from agentorchestra.tea.calling.environment import ActionEnvironment, action
import goods.fruit
from goods import fruit as same
from helpers import AMOUNT


class Shelf(ActionEnvironment):
    "A shelf of {place}."

    name = "shelf"

    @action
    async def look(self) -> str:
        "Look."
        return "{place}"


@tool(effect="read")
def stock() -> str:
    "Say what there is."
    from goods.later import late  # carried out when both programs are loaded

    assert goods.fruit is same
    return f"{{AMOUNT}} {{same.NAME}} {{late()}}"


def workspace() -> Workspace:
    return Workspace(tools=[stock], environments={{"shelf": Shelf}})
"""


def program(folder: Path, place: str) -> Path:
    """Write a program with modules, a package and what is imported late; return the folder of its workspace."""
    (folder / "goods").mkdir(parents=True)
    (folder / "agentorchestra.toml").write_text('app = "app:workspace"\n')
    (folder / "app.py").write_text(APP.format(place=place))
    (folder / "helpers.py").write_text(f"AMOUNT = 'many in {place}:'\n")
    (folder / "goods" / "__init__.py").write_text("from .fruit import NAME\n")
    (folder / "goods" / "fruit.py").write_text(f"NAME = 'fruit of {place}'\n")
    (folder / "goods" / "later.py").write_text("def late():\n    import helpers\n    return helpers.AMOUNT\n")
    return folder / "ws"


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Two workspaces with programs of the same names, of which no module stays behind."""
    path, modules = list(sys.path), set(sys.modules)
    yield program(tmp_path / "one", "Bonn"), program(tmp_path / "two", "Ulm")
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(
            getattr(sys.modules[name], "__file__", "") or getattr(sys.modules[name], "__path__", "")
        ):
            del sys.modules[name]


def asking(tool: str) -> ScriptedModel:
    def model(request: ModelRequest) -> ModelResponse:
        if request.messages[-2].role == "tool":
            return decide(calls=[call("done", answer=request.messages[-2].text)])
        return decide(calls=[call(tool)])

    return ScriptedModel(model)


async def test_each_workspace_has_its_own_program(folders: tuple[Path, Path]) -> None:
    made = [open_workspace(folder) for folder in folders]  # both are loaded before either runs
    for folder, ws, place in zip(folders, made, ("Bonn", "Ulm"), strict=True):
        async with ws:
            result = await ws.run("What is there?", model=asking("stock"), system="react")
            assert result.answer == f"many in {place}: fruit of {place} many in {place}:"
            (record,) = await whole_runs(ws)
            assert (record.manifest.app, record.manifest.app_folder) == ("app:workspace", str(folder.parent))
            assert (await ws.replay(result.run_id, pin=True)).answer == result.answer
            assert (await ws.ecp.invoke("shelf", "look", {})).value == place


@pytest.mark.long
async def test_the_program_of_each_is_recorded_as_in_a_process_of_its_own(folders: tuple[Path, Path]) -> None:
    pinned: dict[Path, list[str]] = {}
    for folder in folders:
        async with open_workspace(folder) as ws:
            result = await ws.run("What is there?", model=asking("stock"), system="react")
            (record,) = await whole_runs(ws)
            pinned[folder] = [(await ws.tcp.info("stock")).content_hash, (await ws.ecp.info("shelf")).content_hash]
            assert record.manifest.tools["stock"].content_hash == pinned[folder][0]
            histories = [*vars(ws.tcp.stock.history("stock")).values(), *vars(ws.ecp.stock.history("shelf")).values()]
            assert "agentorchestra_program" not in repr(histories) + record.manifest.model_dump_json()
    second = folders[1]
    command = [sys.executable, "-m", "agentorchestra", "replay", result.run_id, "--workspace", str(second)]
    alone = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120)
    assert alone.returncode == 0, alone.stdout + alone.stderr
    assert pinned[folders[0]] != pinned[second]
    code = (
        "import asyncio, json, sys\nfrom agentorchestra import open_workspace\n"
        "async def main():\n    async with open_workspace(sys.argv[1]) as ws:\n"
        "        known = [await ws.tcp.info('stock'), await ws.ecp.info('shelf')]\n"
        "        print(json.dumps([one.content_hash for one in known]))\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, str(second)]
    told = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120)
    assert json.loads(told.stdout) == pinned[second], told.stderr


@pytest.mark.long
async def test_texts_of_components_import_from_the_program_of_their_workspace(folders: tuple[Path, Path]) -> None:
    text = (
        "from agentorchestra import tool\nfrom helpers import AMOUNT\n\n@tool(effect='pure')\n"
        "def amount() -> str:\n    'How many.'\n    return AMOUNT\n"
    )
    made = [open_workspace(folder) for folder in folders]
    for ws, place in zip(made, ("Bonn", "Ulm"), strict=True):
        async with ws:
            await ws.tcp.register(source=text)
            assert (await ws.tcp.invoke("amount", {})).value == f"many in {place}:"
    for folder, place in zip(folders, ("Bonn", "Ulm"), strict=True):  # made again from what was kept
        async with open_workspace(folder) as ws:
            assert (await ws.tcp.invoke("amount", {})).value == f"many in {place}:"


def test_a_module_that_the_process_has_already_is_not_that_of_a_workspace(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "helpers", type(sys)("helpers"))  # the embedding program's own
    ws = open_workspace(folders[0])
    assert isinstance(ws, Workspace)
    (stock,) = ws.own.tools
    assert stock.__wrapped__() == "many in Bonn: fruit of Bonn many in Bonn:"
