"""What an agent says of itself: checked where it is made, checked where it is taken in, a part of its identity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Agent, Workspace
from agentorchestra.agents.agent import Relationship
from agentorchestra.core.errors import ToolDefinitionError, UnknownComponentError
from agentorchestra.core.ids import sha256_json


def agent(**more: Any) -> Agent:
    return Agent(name="clerk", description="Sells.", prompt="worker", **more)


def test_fields_that_are_not_used_leave_the_hash_as_it_was() -> None:
    old = sha256_json(["clerk", "Sells.", [], "worker", "agent", 10, "1.0.0"])
    assert agent().content_hash == old
    said: list[dict[str, Any]] = [
        {"competencies": ("a",)},
        {"objectives": ("a",)},
        {"environments": ("a",)},
        {"relationships": (Relationship("cooperative", "a"),)},
        {"relationships": (Relationship("competitive", "a"),)},
        {"remembers": True},
    ]
    assert len({old, *(agent(**one).content_hash for one in said)}) == len(said) + 1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"competencies": "selling"}, "agent 'clerk' has competencies='selling'; give a tuple of texts"),
        ({"objectives": ("",)}, "agent 'clerk' has objectives=('',); give a tuple of texts"),
        ({"relationships": ("reporter",)}, "has the relationship 'reporter'; give Relationship(kind, agent)"),
        ({"relationships": (Relationship("rival", "a"),)}, "one of hierarchical, cooperative, competitive"),  # type: ignore[arg-type]
        ({"relationships": (Relationship("competitive", "clerk"),)}, "a relationship with itself; name another agent"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_made(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        agent(**fields)
    assert sentence in str(caught.value)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"tools": ("read_fil",)}, "names the tool 'read_fil', which is not there; did you mean 'read_file'?"),
        ({"environments": ("shelf",)}, "names the environment 'shelf', which is not there; give it to the workspace"),
        ({"relationships": (Relationship("cooperative", "reportr"),)}, "the agent 'reportr', which is not there; did"),
    ],
)  # fmt: skip
async def test_what_it_names_must_be_there_when_the_workspace_opens(
    tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UnknownComponentError) as caught:
        async with Workspace(tmp_path, agents=[agent(**fields)]):
            pass
    assert sentence in str(caught.value)


class Later:
    """A toolkit whose tools nobody knows before it is opened."""

    name = "later"
    notes = ()

    def secrets(self) -> dict[str, str]:
        """None."""
        return {}

    async def open(self, changed: Any) -> list[Any]:
        """None."""
        return []

    def tools(self) -> list[Any]:
        """None."""
        return []

    async def close(self) -> None:
        """Nothing."""


async def test_tools_may_come_from_a_toolkit_that_is_opened_later(tmp_path: Path) -> None:
    async with Workspace(tmp_path, tools=[Later()], agents=[agent(tools=("later_search",))]) as ws:
        assert "clerk" in ws.catalog.agents


@pytest.mark.long
async def test_what_it_says_survives_being_saved_and_loaded(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "competencies": ("selling",),
        "objectives": ("an empty shop",),
        "relationships": (Relationship("hierarchical", "worker", leads=True, note="in the shop"),),
        "remembers": True,
    }
    async with Workspace(tmp_path / "one", agents=[agent(**fields)]) as ws:
        await ws.acp.save(tmp_path / "agents.json")
        known = await ws.acp.info("clerk")
    async with Workspace(tmp_path / "two") as ws:
        await ws.acp.load(tmp_path / "agents.json")
        found = await ws.acp.info("clerk")
        assert (found.description, found.metadata, found.content_hash) == (
            known.description, known.metadata, known.content_hash,
        )  # fmt: skip
        assert await ws.acp.get("clerk") == agent(**fields)
