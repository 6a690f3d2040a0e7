"""Components from objects, classes, sources, files, folders, manifests, entry points; and what of it is refused."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Workspace, tool
from agentorchestra.agents.agent import Agent
from agentorchestra.core.effects import Outcome
from agentorchestra.core.errors import (
    ComponentNameError,
    InvocationError,
    ManifestError,
    PromptError,
    SourceError,
    ToolDefinitionError,
    UsageError,
)
from agentorchestra.log.store import MemoryStore
from tests.registry.support import PRICE

TWICE = "def twice(number: int) -> int:\n    return 2 * number\n"
PROMPT = "---\nname: greeting\nversion: 1.0.0\ndescription: Says hello.\nvariables: [name]\n---\nHello {{ name }}.\n"
ENVIRONMENT = (Path(__file__).parents[1] / "runtime" / "counter.py").read_text(encoding="utf-8")


class Desk:
    """An object with tools, which share what it holds; it is opened and closed."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.life: list[str] = []

    async def open(self) -> None:
        self.life.append("open")

    async def close(self) -> None:
        self.life.append("close")

    @tool(effect="pure")
    def put(self, thing: str) -> int:
        """Put a thing on the desk."""
        self.held.append(thing)
        return len(self.held)


@pytest.fixture
async def ws(tmp_path: Path) -> Any:
    async with Workspace(tmp_path / "ws") as ws:
        yield ws


async def _value(ws: Workspace, name: str, **arguments: Any) -> Any:
    outcome: Outcome = await ws.tcp.invoke(name, arguments)
    assert outcome.ok, outcome.error
    return outcome.value


async def test_objects_classes_and_functions(ws: Workspace) -> None:
    def half(number: int) -> float:
        """Half a number."""
        return number / 2

    await ws.tcp.register(half, name="halved")
    assert await _value(ws, "halved", number=3) == 1.5
    desk = Desk()
    await ws.tcp.register(desk)
    await _value(ws, "put", thing="pen")
    assert desk.held == ["pen"]
    await ws.tcp.register(Desk)  # another desk
    assert await _value(ws, "put", thing="book") in (1, 2)


async def test_objects_are_opened_before_their_tools_are_used_and_closed_once(tmp_path: Path) -> None:
    given, registered = Desk(), Desk()
    async with Workspace(tmp_path / "ws", tools=[given]) as ws:
        assert given.life == []  # nothing is opened before it is needed
        await _value(ws, "put", thing="pen")
        assert given.life == ["open"]
        await ws.tcp.register(registered, name="put_there")
        await _value(ws, "put_there", thing="pen")
        assert registered.life == ["open"] and registered.held == ["pen"]
    assert given.life == registered.life == ["open", "close"]


async def test_an_object_that_does_not_open_is_refused(tmp_path: Path) -> None:
    class Shut(Desk):
        async def open(self) -> None:
            raise OSError("no key")

    async with Workspace(tmp_path / "ws", tools=[Shut()]) as ws:
        with pytest.raises(ToolDefinitionError, match=r"Shut\.open\(\) failed: OSError: no key"):
            await ws.create("anything", model="offline")


async def test_sources_files_and_folders(ws: Workspace, tmp_path: Path) -> None:
    (config,) = await ws.tcp.register(source=TWICE)
    assert config.component == "twice@1.0.0" and config.evolvable
    assert await _value(ws, "twice", number=4) == 8
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "price.py").write_text(PRICE, encoding="utf-8")
    (folder / "thrice.py").write_text("def thrice(number: int) -> int:\n    return 3 * number\n", encoding="utf-8")
    assert {one.name for one in await ws.tcp.register(path=folder)} == {"price_of", "thrice"}
    assert await _value(ws, "thrice", number=4) == 12
    (tmp_path / "greeting.md").write_text(PROMPT, encoding="utf-8")
    await ws.components.prompts.register(path=tmp_path / "greeting.md")
    assert ws.catalog.prompts.get("greeting").render(name="Ann") == "Hello Ann."
    await ws.ecp.register(source=ENVIRONMENT, name="Counter")
    assert "Counter" in await ws.ecp.list()


async def test_what_was_registered_is_there_in_another_process(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(source=TWICE)
        await ws.ecp.register(source=ENVIRONMENT, name="Counter")
    async with Workspace(tmp_path / "ws") as ws:
        assert await _value(ws, "twice", number=4) == 8
        assert (await ws.ecp.invoke("Counter", "add", {"by": 2})).ok


async def test_tools_and_agents_of_a_manifest(ws: Workspace, tmp_path: Path) -> None:
    manifest = tmp_path / "tools.json"
    (tmp_path / "twice.py").write_text(TWICE)
    agent = {"kind": "agent", "name": "guide", "description": "Knows cities.", "fields": {"tools": ["twice"]}}
    manifest.write_text(_manifest([{"kind": "tool", "name": "twice", "file": "twice.py"}, agent]))
    await ws.tcp.register(path=manifest, invokers=["user"])
    await ws.acp.register(path=manifest)
    assert (await ws.acp.get("guide")).tools == ("twice",)
    assert await _value(ws, "twice", number=4) == 8
    (tmp_path / "twice.py").write_text(TWICE.replace("2 *", "20 *"))
    await ws.tcp.register(path=manifest, invokers=["user"])
    assert await _value(ws, "twice", number=4) == 80
    assert [(one.version, one.invokers) for one in await ws.tcp.versions("twice")] == [
        ("1.0.0", ("user",)),
        ("1.0.1", ("user",)),
    ]


async def test_entry_points_of_other_distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "plugin-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[agentorchestra.tools]\ndesk = plugin_desk:twice\n")
    (tmp_path / "plugin_desk.py").write_text(TWICE)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [one.name for one in importlib.metadata.entry_points(group="agentorchestra.tools")] == ["desk"]
    async with Workspace(tmp_path / "ws") as ws:
        assert await _value(ws, "twice", number=2) == 4
        assert (await ws.tcp.info("twice")).origin == "installed"
    (tmp_path / "plugin_desk.py").write_text("raise ImportError('no desk here')\n")
    monkeypatch.delitem(__import__("sys").modules, "plugin_desk")
    async with Workspace(tmp_path / "other") as ws:
        with pytest.raises(
            SourceError, match=r"entry point desk = plugin_desk:twice .* no desk here; correct or uninstall"
        ):
            await ws.tcp.list()


def _manifest(components: list[dict[str, Any]] | None = None, **fields: Any) -> str:
    return json.dumps({"agentorchestra_manifest": 1, "components": components or [], **fields})


BAD_MANIFESTS: dict[str, tuple[str, str]] = {
    "not JSON": ("{", "cannot be read"),
    "no manifest": ("{}", "is no manifest; it begins with"),
    "newer": ('{"agentorchestra_manifest": 9}', "has the format 9.*install a later one"),
    "others in it": (_manifest(include=["more.json"]), "does not fit at include"),
    "unknown field": (_manifest([{"kind": "tool", "name": "a", "colour": 1}]), "does not fit at components.0.colour"),
    "unknown kind": (_manifest([{"kind": "spoon", "name": "a"}]), "does not fit at components.0.kind"),
    "twice": (_manifest([{"kind": "tool", "name": "a", "source": TWICE}] * 2), "names the tool 'a' twice"),
    "nothing in it": (_manifest([{"kind": "tool", "name": "a"}]), "has neither file, source nor fields"),
    "outside": (_manifest([{"kind": "tool", "name": "a", "file": "../a.py"}]), "is outside of"),
    "missing file": (_manifest([{"kind": "tool", "name": "a", "file": "a.py"}]), "cannot be read"),
    "missing environment": (
        _manifest([{"kind": "tool", "name": "twice", "source": TWICE, "environments": ["sea"]}]),
        "needs the environment 'sea', which is not there",
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", BAD_MANIFESTS)
async def test_bad_manifests(ws: Workspace, tmp_path: Path, case: str) -> None:
    text, said = BAD_MANIFESTS[case]
    (tmp_path / "m.json").write_text(text, encoding="utf-8")
    await _refused(ws, lambda: ws.tcp.register(path=tmp_path / "m.json"), ManifestError, said)


BAD_NAMES: dict[str, str] = {
    "": "is ''; give letters",
    "a" * 65: "has 65 characters; 64 are the most",
    "done": "the name is reserved",
    "../x": "use letters, digits",
    "a/b": "use letters, digits",
    "1a": "the first not a digit",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BAD_NAMES)
async def test_bad_names(ws: Workspace, name: str) -> None:
    await _refused(ws, lambda: ws.tcp.register(source=TWICE, name=name), ComponentNameError, BAD_NAMES[name])


BAD_SOURCES: dict[str, tuple[str, type[Exception], str | None]] = {
    "empty": ("  ", SourceError, "is empty"),
    "syntax": ("def twice(:\n", SourceError, "line 1"),
    "raises": ("1 / 0\n", SourceError, "line 1: ZeroDivisionError"),
    "no function": ("A = 1\n", SourceError, "defines no function"),
    "no types that make a schema": ("def twice(number: object()) -> int:\n    return 1\n", UsageError, None),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", BAD_SOURCES)
async def test_bad_sources(ws: Workspace, case: str) -> None:
    text, error, said = BAD_SOURCES[case]
    await _refused(ws, lambda: ws.tcp.register(source=text), error, said)


async def test_more_that_is_refused(ws: Workspace) -> None:
    await _refused(ws, lambda: ws.tcp.register(3), ToolDefinitionError, "has no tools")
    sea = "class Sea:\n    pass\n"
    await _refused(ws, lambda: ws.ecp.register(source=sea, name="Sea"), SourceError, "lacks actions")
    await _refused(ws, lambda: ws.components.prompts.register(source="no front matter"), PromptError, None)
    await _refused(ws, lambda: ws.acp.register(source="A = 1\n"), SourceError, "defines no agent")
    await _refused(ws, lambda: ws.tcp.update("nothing", source=TWICE), UsageError, "no tool 'nothing'")
    bad = "import subprocess\n\ndef twice(number: int) -> int:\n    return 2\n"
    await _refused(ws, lambda: ws.tcp.register(source=bad, name="twice", trusted=False), SourceError, "subprocess")


async def _refused(ws: Workspace, work: Callable[[], Any], error: type[Exception], said: str | None) -> None:
    """It is refused in a sentence, and nothing is registered, half or whole."""
    before = await ws.store.component_count() if await ws.tcp.list() else 0
    with pytest.raises(error, match=said):
        await work()
    assert await ws.store.component_count() == before


async def test_what_fails_when_it_is_called_is_an_outcome(ws: Workspace) -> None:
    await ws.tcp.register(source='def fails(number: int) -> int:\n    """Fail."""\n    raise ValueError("too small")\n')
    outcome = await ws.tcp.invoke("fails", {"number": 1})
    assert outcome.status == "error" and "too small" in (outcome.error or "")
    slow = (
        "import asyncio\n\n\n@tool(timeout_s=0.05)\nasync def slow() -> int:\n"
        '    """Wait."""\n    await asyncio.sleep(60)\n    return 1\n'
    )
    await ws.tcp.register(source=slow)
    outcome = await ws.tcp.invoke("slow")
    assert outcome.status == "timeout" and "0.05 s" in (outcome.error or "")
    with pytest.raises(InvocationError, match=r"slow was stopped after its time limit of 0\.05 s") as raised:
        outcome.result()
    assert raised.value.status == "timeout"
    with pytest.raises(InvocationError, match=r"fails: number .* its arguments: number \(integer, required\)|number"):
        (await ws.tcp.invoke("fails", {"number": "many"})).result()


async def test_a_manifest_that_changed_is_taken_whole_or_not(ws: Workspace, tmp_path: Path) -> None:
    manifest = tmp_path / "tools.json"
    held = {"kind": "tool", "name": "zwice", "version": "1.0.0", "source": TWICE.replace("twice", "zwice")}
    first = {"kind": "tool", "name": "twice", "source": TWICE}
    manifest.write_text(_manifest([first, held]))
    await ws.tcp.register(path=manifest)
    changed = [
        {**first, "source": TWICE.replace("2 *", "20 *")},
        {**held, "source": str(held["source"]).replace("2 *", "3 *")},
    ]
    manifest.write_text(_manifest(changed))
    with pytest.raises(UsageError, match=r"zwice@1\.0\.0 is registered with other content"):
        await ws.tcp.register(path=manifest)
    assert await _value(ws, "twice", number=4) == 8


ODD: dict[str, tuple[Callable[[Workspace, Any], Any], list[Any], str]] = {
    "name": (lambda ws, odd: ws.tcp.register(source=TWICE, name=odd), [3, b"x", ["x"]], "the name of a tool is"),
    "version": (lambda ws, odd: ws.tcp.register(source=TWICE, version=odd), [3, "1", "1.2.x"], "versions look like"),
    "author": (lambda ws, odd: ws.tcp.register(source=TWICE, author=odd), [None, 3], "give text"),
    "reason": (lambda ws, odd: ws.tcp.register(source=TWICE, reason=odd), [b"x", "\ud800"], "give text"),
    "invokers": (lambda ws, odd: ws.tcp.register(source=TWICE, invokers=odd), ["user", [1], [""]], "give a list"),
    "source": (lambda ws, odd: ws.tcp.register(source=odd), [b"x = 1", 3, "x = '\ud800'"], "source"),
    "path": (lambda ws, odd: ws.tcp.register(path=odd), [3, "a\0b", "a" * 5000, "a" * 3000], "path|cannot be read"),
    "prompt": (lambda ws, odd: ws.components.prompts.register(source=odd), [b"x", f"{PROMPT}\ud800"], "source"),
    "environment": (lambda ws, odd: ws.ecp.register(odd), [print, lambda: None, lambda: 1 / 0, int], "no environment"),
    "get": (lambda ws, odd: ws.tcp.get(odd), [None, [1], "x" * 10**6], "no tool"),
    "get version": (lambda ws, odd: ws.tcp.get("python", odd), [[1], 3], "has no version"),
    "retrieve": (lambda ws, odd: ws.tcp.retrieve(odd), [None, b"x"], "are text"),
    "setvars": (lambda ws, odd: ws.tcp.setvars("python", odd), [None, ["code"]], "by name"),
    "save": (lambda ws, odd: ws.tcp.save(odd), [None, 3], "no path"),
    "load": (lambda ws, odd: ws.tcp.load(odd), [None, "a\0"], "no path"),
    "arguments": (lambda ws, odd: ws.tcp.invoke("todo", odd), [[1], "x", {1: 2}, {"a": 10**5000}], "arguments"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", ODD)
async def test_odd_input(case: str) -> None:
    work, odd, said = ODD[case]
    async with Workspace(store=MemoryStore()) as ws:
        for one in odd:
            await _refused(ws, lambda one=one: work(ws, one), UsageError, f"{said}|cannot be written as JSON")  # type: ignore[misc]
        await ws.tcp.contract()


async def test_a_secret_is_not_kept(tmp_path: Path) -> None:
    value = "sk-4711-verysecret"
    source = f'def key_of(number: int) -> str:\n    return "{value}"\n'
    leak = source.replace("key_of", "twice")
    async with Workspace(tmp_path / "ws", environ={"OPENAI_API_KEY": value}) as ws:
        await _refused(ws, lambda: ws.tcp.register(source=source), SourceError, "holds the value of a secret")
        await ws.tcp.register(source=TWICE, reason=f"for {value}", author=f"me {value}")
        await ws.tcp.setvars("twice", {"code": TWICE.replace("2 *", "3 *")}, reason=value)
        await _refused(ws, lambda: ws.tcp.setvars("twice", {"code": leak}), SourceError, "the value of a secret")
        await ws.acp.register(Agent(name="guide", description=f"Knows {value}."))
        await ws.tcp.save(tmp_path / "tools.json")
        await ws.acp.save(tmp_path / "agents.json")
        assert "secret:" in (await ws.tcp.versions("twice"))[0].reason
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or value.encode() not in file.read_bytes(), file
