"""The messages of a society as `show` draws them: in a terminal, in a page, in JSON."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from agentorchestra.cli.view.sequence import sequence_lines
from agentorchestra.core.errors import ModelAuthError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.conversation import AgentExchange, Conversation
from agentorchestra.testing import ScriptedModel, call, say
from agentorchestra.workspace import Workspace
from tests.browser import chromium
from tests.cli.test_html import ALL, Watched, assert_inert, invoke
from tests.systems.test_coral import answers, opens, plays, script, society, waits, writes

NAMES = ("planner", "web_agent", "document_agent", "coding_agent")


def exchange(n: int, kind: Any, sender: str, *to: str, content: str = "", refused: str = "") -> AgentExchange:
    thread = "" if kind in ("submit", "lost") else "work"
    return AgentExchange(
        n=n, seconds=n / 2, kind=kind, sender=sender, to=to, thread=thread, content=content, refused=refused
    )


TALK = Conversation(
    task="How many?",
    leader="coral",
    members=dict.fromkeys(NAMES, "Works."),
    exchanges=(
        exchange(1, "create", "coral", "planner", "web_agent"),
        exchange(2, "message", "coral", "planner", "document_agent", content="How many?"),
        exchange(3, "message", "document_agent", "coral", content="x" * 300),
        exchange(4, "message", "coral", "coding_agent", content="Hm?", refused="it takes no part"),
        exchange(5, "lost", "web_agent", content="the model is off"),
        exchange(6, "message", "coral", "nobody", content="You?", refused="there is no agent 'nobody'"),
        exchange(7, "close", "coral", content="Done."),
        exchange(8, "submit", "coral", content="7"),
    ),
)


def test_a_wide_terminal_gets_lifelines_and_arrows() -> None:
    lines = sequence_lines(TALK, 120)
    assert all(cell_len(line) <= 120 for line in lines)
    drawn = [line[:80].split(maxsplit=3)[-1] if n else line for n, line in enumerate(lines)]
    assert drawn[0].split() == ["coral", "planner", "web_agent", "document_ag…", "coding_agent"]
    signs = ["".join(sign for sign in line if sign in "●►◄✗◇■┼│") for line in drawn[1:]]
    assert signs == ["◇││││", "●►┼►│", "◄┼┼●│", "●┼┼┼✗", "││✗││", "✗│││", "◇│││", "■│││"]
    assert lines[1].endswith("opens thread work with planner, web_agent") and lines[2].endswith("[work] How many?")
    assert "xxx…" in lines[3] and "refused: [work] Hm? (it takes no part)" in lines[4]
    assert lines[-1].endswith("submits the answer: 7")


@pytest.mark.parametrize(("width", "encoding"), [(50, "utf-8"), (200, "ascii")])
def test_where_there_is_no_room_for_lifelines_there_is_a_list(width: int, encoding: str) -> None:
    lines = sequence_lines(TALK, width, encoding)
    assert lines[1] == "2  1.0 s  coral -> planner, document_agent  [work] How many?"
    assert lines[5] == "6  3.0 s  coral -> nobody  refused: [work] You? (there is no agent 'nobody')"
    assert lines[7] == "8  4.0 s  coral  submits the answer: 7"
    assert len(lines) == 8 and len(lines[2]) < 220


@pytest.mark.real
def test_a_run_is_shown_and_what_its_agents_wrote_steers_nothing(tmp_path: Path) -> None:
    turns = [[opens("coding_agent", thread=ALL)], [writes(ALL, "coding_agent", thread=ALL), waits()]]
    model = script(plays(*turns, [writes(ALL, ALL, thread=ALL)], last=ALL), coding_agent=lambda _: say("7"))
    result, _ = asyncio.run(society(tmp_path, model))
    where = ("--workspace", str(tmp_path / "ws"))
    shown = invoke("show", result.run_id, *where)
    assert shown.exit_code == 0 and "\x1b" not in shown.stdout and "\u202e" not in shown.stdout
    drawn = shown.stdout.partition("\nmessages:\n")[2].partition("\n\n")[0].splitlines()
    assert len(drawn) == 6 and all(cell_len(line) <= 120 for line in drawn)
    assert "►" in drawn[2] and "submits the answer: <script" in drawn[-1]
    talk = json.loads(invoke("show", result.run_id, "--json", *where).stdout)["conversation"]
    assert [one["kind"] for one in talk["exchanges"]] == ["create", "message", "message", "message", "submit"]
    assert talk["exchanges"][1]["content"] == ALL
    page = tmp_path / "page.html"
    assert invoke("show", result.run_id, "--html", str(page), *where).exit_code == 0
    assert_inert(page.read_text(encoding="utf-8"))

    async def look() -> None:
        async with chromium() as browser:
            tab = await browser.new_page()
            watched = Watched(tab)
            await tab.goto(page.as_uri())
            table = tab.locator("table.talk")
            assert await table.locator("th").all_inner_texts() == ["", "", "coral", *NAMES, ""]
            row = table.locator("tr").nth(2)
            assert await row.locator("td.lane").all_inner_texts() == ["●", "", "", "", "►"]
            assert not await row.locator("pre").is_visible()
            await row.locator("summary").click()
            assert "document.title = 'owned'" in await row.locator("pre").inner_text()
            refused = await table.locator("tr").nth(4).text_content()
            assert refused is not None and ", refused: there is no agent" in refused
            assert (watched.requests, watched.alarms) == ([page.as_uri()] * 2, [])

    asyncio.run(look())


def test_a_run_that_was_cut_off_is_shown_as_far_as_it_went(tmp_path: Path) -> None:
    begins = plays([opens("coding_agent")], [writes("How many?", "coding_agent"), waits()])

    def main(request: ModelRequest) -> Any:
        if any(one.role == "tool" and "There are 7" in one.text for one in request.messages):
            raise ModelAuthError("the model is switched off")
        return begins(request)

    def worker(request: ModelRequest) -> ModelResponse:
        return answers("There are 7.")(request)

    result, _ = asyncio.run(society(tmp_path, script(main, coding_agent=worker)))
    assert result.status is RunStatus.FAILED
    shown = invoke("show", result.run_id, "--workspace", str(tmp_path / "ws")).stdout
    drawn = shown.partition("\nmessages:\n")[2].partition("\n\n")[0].splitlines()
    assert drawn[-1].endswith("[work] There are 7.") and "◄" in drawn[-1] and "submits" not in shown


def test_a_run_without_a_society_shows_no_messages(tmp_path: Path) -> None:
    model = script(plays(last="7"))
    result, _ = asyncio.run(society(tmp_path, model))
    where = ("--workspace", str(tmp_path / "ws"))
    assert "submits the answer: 7" in invoke("show", result.run_id, *where).stdout
    asyncio.run(_plain(tmp_path / "plain"))
    shown = invoke("show", "last", "--workspace", str(tmp_path / "plain"))
    assert shown.exit_code == 0 and "messages:" not in shown.stdout
    json_form = json.loads(invoke("show", "last", "--json", "--workspace", str(tmp_path / "plain")).stdout)
    assert json_form["conversation"] is None


async def _plain(folder: Path) -> None:
    async with Workspace(folder, models={"scripted": ScriptedModel(lambda _: call("done", answer="7"))}) as ws:
        await ws.run("How many?", system="react", model="scripted")
