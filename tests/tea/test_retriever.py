"""The retriever: an embedder beside words, scopes; one more component is one more text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Workspace
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import ModelError
from agentorchestra.core.events import EffectStarted
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool, tool_from_schema
from agentorchestra.tea.retrieval import index as retrieval
from agentorchestra.tea.retrieval.finder import KeptVectors
from agentorchestra.tea.retrieval.index import Described
from agentorchestra.tea.retrieval.retriever import Retriever
from agentorchestra.testing import LoopbackModelServer, say

MEANINGS = {"rain": (1.0, 0.1), "umbrella": (0.9, 0.2), "boat": (0.1, 1.0), "ship": (0.2, 0.9)}


class Embedder:
    """Knows what four words mean, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.away = False

    async def __call__(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        if self.away:
            raise ModelError("the server is away")
        self.asked += texts
        return [next((one for word, one in MEANINGS.items() if word in text), (0.5, 0.5)) for text in texts]


async def _keys(retriever: Retriever, query: str, **further: object) -> list[str]:
    return [one.key for one in await retriever.search(query, **further)]  # type: ignore[arg-type]


async def test_one_more_component_is_one_more_text(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Embedder()
    made = Retriever(embedder)
    for number in range(300):
        made.add(f"k{number}", Described(f"boat_{number}"))
    await made.prepare()
    assert len(embedder.asked) == 300
    read: list[str] = []
    words_of = retrieval.words_of

    def counted(text: str) -> list[str]:
        read.append(text)
        return words_of(text)

    monkeypatch.setattr(retrieval, "words_of", counted)
    made.add("one", Described("umbrella"))
    assert await _keys(made, "rain", limit=1) == ["one"]
    assert embedder.asked[300:] == ["umbrella", "rain"]
    assert len([text for text in read if text != "rain"]) == 1
    # The same text again, and the same question, are known.
    made.remove("one")
    made.add("two", Described("umbrella"))
    assert await _keys(made, "rain", limit=1) == ["two"]
    assert len(embedder.asked) == 302


async def test_words_find_while_the_embedder_is_away() -> None:
    embedder = Embedder()
    made = Retriever(embedder)
    made.add("umbrella", Described("umbrella", "Opens."))
    made.add("boat", Described("boat", "Sails."))
    embedder.away = True
    assert await _keys(made, "sails") == ["boat"]
    assert made.problem == "the embedder failed, so words alone were compared: the server is away"
    assert await _keys(made, "rain") == []
    embedder.away = False
    assert await _keys(made, "rain", limit=1) == ["umbrella"]
    assert made.problem == ""
    embedder.away = True
    assert await _keys(made, "ship") == []
    assert made.problem


async def test_a_run_asks_for_itself() -> None:
    """What is known in this process already is not known in the process that repeats the run."""
    own, of_run = Embedder(), Embedder()
    made = Retriever(own)
    made.add("umbrella", Described("umbrella"))
    for _ in range(2):
        assert await _keys(made, "rain", embed=of_run) == ["umbrella"]
    assert (own.asked, of_run.asked) == (["umbrella"], ["rain", "rain"])
    assert await _keys(made, "rain", vectors=False) == []


async def test_scopes_narrow_and_browse() -> None:
    made = Retriever()
    for key, path in [("a", "mcp/github"), ("b", "mcp/github"), ("c", "mcp/slack"), ("d", "package"), ("e", "")]:
        made.add(key, Described(key, "Send a thing."), path=path)
    assert await _keys(made, "send") == ["a", "b", "c", "d", "e"]
    assert await _keys(made, "send", under="mcp") == ["a", "b", "c"]
    assert await _keys(made, "send", under="/mcp/github/", limit=1) == ["a"]
    assert await _keys(made, "send", under="mcp/git") == []
    assert await _keys(made, "send", under="mcp", among={"c", "d"}) == ["c"]
    assert await _keys(made, "  ", under="mcp/github") == ["a", "b"]
    assert await _keys(made, "") == []
    assert [(one.path, one.count, one.keys) for one in made.browse()] == [("mcp", 3, ()), ("package", 1, ("d",))]
    assert [(one.path, one.count) for one in made.browse("mcp")] == [("mcp/github", 2), ("mcp/slack", 1)]
    assert [one.count for one in made.browse("mcp", among={"b"})] == [1]
    made.remove("c")
    assert [one.path for one in made.browse("mcp")] == ["mcp/github"]


async def test_a_hostile_query_is_bounded() -> None:
    made = Retriever()
    made.add("a", Described("send"))
    assert await _keys(made, "send " + "x" * 5_000_000) == ["a"]
    assert made.nearest("sendd") == ["a"]


async def test_vectors_of_another_length_are_left_out() -> None:
    made = Retriever(Embedder())
    made.add("boat", Described("boat"))
    await made.prepare()

    async def other(texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        return [(1.0, 2.0, 3.0) for _ in texts]

    assert await _keys(made, "boat", embed=other) == ["boat"]


def test_vectors_are_kept_between_processes(tmp_path: Path) -> None:
    file = tmp_path / "vectors" / "a.jsonl"
    digest = {name: name[0] * 64 for name in ("a1", "b2", "c3")}
    kept = KeptVectors(file)
    assert len(kept) == 0
    kept[digest["a1"]] = [1.0, 2.0]
    kept[digest["b2"]] = [3.0, 4.0]
    again = KeptVectors(file)
    assert {name: [*one] for name, one in again.items()} == {digest["a1"]: [1.0, 2.0], digest["b2"]: [3.0, 4.0]}
    # A process was killed while it wrote: what is whole stays.
    file.write_bytes(file.read_bytes()[:-3])
    torn = KeptVectors(file)
    assert [*torn] == [digest["a1"]]
    torn[digest["c3"]] = [5.0, 6.0]
    assert {name: [*one] for name, one in KeptVectors(file).items()} == {
        digest["a1"]: [1.0, 2.0],
        digest["c3"]: [5.0, 6.0],
    }
    file.write_bytes(b"nothing of the sort\n")
    assert len(KeptVectors(file)) == 0


@tool(effect="pure")
def open_door(name: str) -> str:
    """Open a thing."""
    return name


@tool(effect="pure")
def open_gate(name: str) -> str:
    """Open a thing."""
    return name


async def test_a_workspace_embeds_through_the_door_and_once(tmp_path: Path) -> None:
    """The vectors of a server; the second process asks only for the question."""
    async with LoopbackModelServer(lambda body: say("")) as server:
        profile = ModelProfile(model="letters", base_url=server.base_url, api_key_env="")
        settings = Settings(model="offline", models={"embed": profile}, embedding_model="embed")
        texts = []
        for _ in range(2):
            async with Workspace(tmp_path, tools=[open_door], settings=settings) as ws:
                found = await ws.tcp.retrieve("open something", limit=3)
                assert found[0].config.name == "open_door"
                kinds = [e.data.effect["kind"] async for e in ws.log.select() if isinstance(e.data, EffectStarted)]
            texts.append(sum(len(one["input"]) for one in server.requests))
        assert set(kinds) == {"Embed"}
    assert texts[1] == texts[0] + 1


class Harbour:
    """A toolkit with one tool."""

    name = "harbour"
    notes = ()

    def secrets(self) -> dict[str, str]:
        return {}

    async def open(self, changed: Callable[[], None]) -> Sequence[Tool[..., Any]]:
        return self.tools()

    def tools(self) -> Sequence[Tool[..., Any]]:
        schema = ToolSchema(name="far", description="Far away.", parameters={"type": "object", "properties": {}})
        return [tool_from_schema(open_door, schema, traits=ToolTraits(origin="mcp:harbour"), trust=Trust.SYSTEM)]

    async def close(self) -> None:
        pass


async def test_tools_are_browsed_by_where_they_come_from(tmp_path: Path) -> None:
    async with Workspace(tmp_path, tools=[open_door, Harbour()], settings=Settings()) as ws:
        groups = {one.path: one.count for one in await ws.tcp.browse()}
        assert (groups["mcp"], groups["code"]) == (1, 1)
        assert groups["package"] > 3
        assert [one.config.name for one in await ws.tcp.retrieve("", under="mcp/harbour")] == ["far"]
        assert await ws.tcp.retrieve("open", under="mcp") == []
