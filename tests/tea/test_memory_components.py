"""Memory systems have the life of every component: versions, restoring, copies, registration from source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import SourceError, UnknownComponentError
from agentorchestra.log.store import MemoryStore
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

DIARY = '''
class Diary:
    """One line for each task."""

    name, version, description = "diary", "1.0.0", "Keeps one line for each task."

    async def begin(self, memory):
        return await memory.read(kinds=("insight",), limit=1)

    async def step(self, memory, event):
        return

    async def end(self, memory, event):
        await memory.write("insight", "LINE " + event.text, of=[event])
'''


def told(request: Any) -> str:
    return "\n".join(m.text for m in request.messages if m.role == "user" and "LINE" in m.text)


async def test_a_memory_system_is_registered_changed_and_restored(tmp_path: Path) -> None:
    store = MemoryStore()
    async with Workspace(tmp_path / "ws", store=store, environ={}) as ws:
        server = ws.components.memories
        assert list(await server.list()) == ["insights", "summary", "window", "workflow"]
        assert (await server.info("window")).metadata["size"] == 30
        await server.register(source=DIARY)
        second = await server.update("diary", source=DIARY.replace("LINE ", "LINE TWO "))
        assert second.version == "1.0.1"
        asked: list[str] = []

        def model(request: Any) -> Any:
            asked.append(told(request))
            return decide(calls=[call("done", answer="yes")])

        options: dict[str, Any] = {"model": ScriptedModel(model), "system": "react", "session": "s", "memory": "diary"}
        for _ in range(2):
            await ws.run("Is it?", **options)
        await server.restore("diary", "1.0.0")
        for _ in range(2):
            result = await ws.run("Is it?", **options)
        assert ["TWO" in one for one in asked] == [False, True, True, False]
        assert (await ws.replay(result.run_id)).answer == "yes"
        (code,) = await server.vars("diary")
        assert code.role == "memory code" and code.value.startswith("class Diary:")


async def test_a_saved_memory_system_is_used_elsewhere_by_who_stands_for_it(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "a", store=MemoryStore(), environ={}) as ws:
        await ws.components.memories.register(source=DIARY)
        await ws.components.memories.save(tmp_path / "memories.json")
    options: dict[str, Any] = {"system": "react", "session": "s", "memory": "diary"}
    async with Workspace(tmp_path / "b", store=MemoryStore(), environ={}) as ws:
        await ws.components.memories.load(tmp_path / "memories.json", trusted=True)
        model = ScriptedModel([decide(calls=[call("done", answer="yes")])] * 2)
        for _ in range(2):
            assert (await ws.run("Is it?", model=model, **options)).answer == "yes"
    async with Workspace(tmp_path / "c", store=MemoryStore(), environ={}) as ws:
        await ws.components.memories.load(tmp_path / "memories.json")
        with pytest.raises(
            UnknownComponentError, match=r"memory diary@1\.0\.0 came from elsewhere, and the code of memories"
        ):
            await ws.create("Is it?", model="offline", **options)


async def test_source_that_is_no_memory_system_is_refused(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws", store=MemoryStore(), environ={}) as ws:
        with pytest.raises(SourceError, match="begin, step, end"):
            await ws.components.memories.register(source="class Half:\n    name = 'half'\n")
        assert "half" not in await ws.components.memories.list()
