"""The three servers: what there is, what is known of it, what fits, and the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra import Workspace, tool
from agentorchestra.agents.agent import Agent
from agentorchestra.core.errors import UnknownComponentError, WorkspaceStateError
from agentorchestra.environments.registry import PACKAGED
from agentorchestra.tea.registry.config import first_sentence
from tests.runtime.counter import Counter


@tool(effect="read", timeout_s=5)
def price_of(item: str, currency: str | None = None) -> float:
    """The price of an item.

    Args:
        item: what is bought.
        currency: three letters; euros without it.
    """
    return len(item)


SELLER = Agent("seller", "Sells things. Knows prices.", tools=("price_of",))


def _workspace(folder: Path) -> Workspace:
    return Workspace(folder / "ws", tools=[price_of], environments={"counter": Counter}, agents=[SELLER])


async def test_tools_environments_and_agents_are_known(tmp_path: Path) -> None:
    ws = _workspace(tmp_path)
    with pytest.raises(WorkspaceStateError):
        _ = ws.tcp
    async with ws:
        assert {"price_of", "read_file"} <= set(await ws.tcp.list())
        assert {*await ws.ecp.list()} == {"counter", *PACKAGED}
        assert "seller" in await ws.acp.list()
        assert await ws.tcp.get("price_of") is price_of
        info = await ws.tcp.info("price_of")
        assert (info.kind, info.component, info.builtin) == ("tool", "price_of@1.0.0", False)
        assert info.content_hash == price_of.content_hash
        assert info.metadata == {"tags": ["read"], "mode": "pure", "timeout_s": 5.0}
        assert info.operations[0].function["function"] == {
            "name": "price_of",
            "description": price_of.description,
            "parameters": price_of.schema.parameters,
        }
        assert (await ws.tcp.info("read_file")).builtin
        counter = await ws.ecp.info("counter")
        assert [one.name for one in counter.operations] == ["add", "look"]
        assert counter.rules.startswith("State: a number")
        assert counter.metadata == {"branching": "snapshot", "durable": False}
        seller = await ws.acp.info("seller")
        assert seller.operations[0].parameters["required"] == ["task"]
        assert seller.metadata["tools"] == ["price_of"]


async def test_what_fits_a_task(tmp_path: Path) -> None:
    async with _workspace(tmp_path) as ws:
        assert (await ws.tcp.retrieve("how much does it cost to buy this, in euros?"))[0].config.name == "price_of"
        assert (await ws.ecp.retrieve("add numbers"))[0].config.name == "counter"
        assert (await ws.acp.retrieve("who sells?", limit=1))[0].config.name == "seller"
        assert (await ws.components.prompts.retrieve("ReAct baseline"))[0].config.name == "react"
        assert len(await ws.tcp.retrieve("file", limit=2)) == 2


async def test_the_contract_describes_everything_of_a_kind(tmp_path: Path) -> None:
    async with _workspace(tmp_path) as ws:
        text = await ws.tcp.contract()
        assert text.startswith("# Tools\n\n- ") and "\n- bash: " in text
        for name in await ws.tcp.list():
            assert f"\n## {name}\n" in text
        assert "- `currency` (string, optional): three letters; euros without it." in text
        assert "### add\n\nAdd a number." in await ws.ecp.contract()
    async with Workspace(tmp_path / "other") as other:
        text = await other.ecp.contract()
        assert text.startswith("# Environments\n\n- browser: Pages of the web")
        assert "\n- files: A folder with files" in text
        assert "State." in text and "Vision." in text and "Interaction." in text


async def test_unknown_names_get_the_nearest(tmp_path: Path) -> None:
    async with _workspace(tmp_path) as ws:
        with pytest.raises(UnknownComponentError, match="no tool 'price_off'; did you mean 'price_of'"):
            await ws.tcp.info("price_off")
        there = "no environment 'zzzz'; there are: browser, computer, counter, files"
        with pytest.raises(UnknownComponentError, match=there):
            await ws.ecp.get("zzzz")


async def test_a_workspaces_own_prompt_is_its_own(tmp_path: Path) -> None:
    async with _workspace(tmp_path) as ws:
        assert (await ws.components.prompts.info("react")).builtin
        text = ws.catalog.prompts.get("react").text
    (tmp_path / "ws" / "prompts").mkdir()
    (tmp_path / "ws" / "prompts" / "react.md").write_text(text + "\nBe brief.\n", encoding="utf-8")
    async with _workspace(tmp_path) as ws:
        assert not (await ws.components.prompts.info("react")).builtin


def test_first_sentences() -> None:
    assert first_sentence("One. Two.") == "One."
    assert first_sentence("See sec. 3 and (app. e). Then\nmore.") == "See sec. 3 and (app. e)."
    assert first_sentence("As in (000, app. H). Then more.") == "As in (000, app. H)."
    assert first_sentence("no end") == "no end"
    assert first_sentence("") == ""
