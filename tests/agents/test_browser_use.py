"""The browser use agent in runs: one website, a real Chromium; the models decide by the page that they are shown."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image, ImageSequence

from agentorchestra import Agent, RunContext, Workspace, tool
from agentorchestra.core.errors import MissingExtraError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import AgentSpec, RunStatus
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace.agents import builtin_agents
from agentorchestra.workspace.agents import team as team_of
from tests.agents.browsing import clerk, host_of, opened, page_of, ref_of, results_of, signing_in, task_of, team
from tests.site.browser import PASSWORD, USER, browser_site
from tests.support.runs import whole_runs


@pytest.mark.long
async def test_a_login_is_there_for_the_next_agent_and_the_analyzer_reads_what_was_downloaded(tmp_path: Path) -> None:
    planned: list[ModelRequest] = []

    def planner(request: ModelRequest) -> Any:
        planned.append(request)
        said, site = results_of(request), task_of(request).split("/login")[0].rpartition(" ")[2]
        steps = [
            call("browser_use", task=f"Sign in at {site}/login as {USER} with the password {PASSWORD}."),
            call("browser_use", task=f"Open {site}/account and download the statement."),
            call("deep_analyzer", task=f"How many shells were there in June? {said[-1] if said else ''}"),
        ]
        if len(said) < len(steps):
            return decide(calls=[steps[len(said)]])
        sources = json.loads(said[-1].partition("\n")[0] if said[-1].startswith("{") else said[-1])["sources"]
        return decide(calls=[call("done", answer="794 shells", sources=sources)])

    def analyzer(request: ModelRequest) -> Any:
        before = [one for one in results_of(request) if "June" in one]
        if not before:
            path = next(word.strip('".,') for word in page_of(request).split() if "statement.csv" in word)
            return decide(calls=[call("files_read", path=path)])
        # At first it quotes what does not stand there; it is told so. Rows are quoted as they are read, or labelled.
        june = 794 if "<problem>" in page_of(request) else 795
        asked: Any = next(message.tool_calls[0].arguments for message in request.messages if message.tool_calls)
        quotes = (f"June,{june}", f"B3 shells: {june}")
        sources: Any = [{"source": asked["path"], "place": "row 3", "quote": one} for one in quotes]
        return decide(calls=[call("done", answer="794 shells", sources=sources)])

    async with browser_site() as site, opened(tmp_path, team(planner, clerk, analyzer=analyzer), site.host) as ws:
        task = f"Sign in at {site.address}/login as {USER} with the password {PASSWORD}. How many shells in June?"
        result = await ws.run(task, environments=["browser"])
        replayed = await ws.replay(result.run_id)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "794 shells"), result.error or result.report
        assert replayed.answer == result.answer_text
        assert len(site.sessions) == 1  # it signed in once
        assert [one.quote for one in result.sources] == ["June,794", "B3 shells: 794"]
        (saved,) = ws.files.folder(result.run_id).rglob("statement.csv")
        assert saved.read_text().startswith("month,shells")
        first, second = sorted({one.name.split("/")[1] for one in result.artifacts if one.name.endswith("log.jsonl")})
        for name in (first, second):
            folder = ws.files.root / result.run_id / "browser" / name
            with Image.open(folder / "steps.gif") as shown:
                assert shown.width == 640
                assert len(list(ImageSequence.Iterator(shown))) >= 2
            report = (folder / "report.md").read_text()
            assert report.startswith("# Browser task")
            assert f"]({site.address}/account)" in report
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        assert [one["name"] for one in log if one["type"] == "call"] == [
            "browser_go_to_url", "browser_click", "done", "report_add",
        ]  # fmt: skip
        assert f"Record: browser/{first}/log.jsonl" in results_of(planned[-1])[0]


async def test_a_run_that_does_not_ask_for_the_browser_pays_nothing_for_it(tmp_path: Path) -> None:
    offered: list[str] = []

    def planner(request: ModelRequest) -> Any:
        offered.extend(one.name for one in request.tools)
        return decide(calls=[call("done", answer="seen")])

    async with opened(tmp_path, team(planner, clerk)) as ws:
        result = await ws.run("Look around.")
        (record,) = await whole_runs(ws)
    assert result.answer == "seen"
    assert "browser_use" not in offered
    assert "browser" not in record.manifest.tools
    assert "browser_use" not in record.manifest.agents


def test_agents_on_request_are_there_where_their_packaged_environments_are_named() -> None:
    def asked(*environments: str) -> Agent:
        return Agent(name="one", description="One.", environments=environments, on_request=True)

    packaged = {"browser", "files"}
    assert "one" not in team_of({"one": asked("browser")}, (), packaged)
    assert "one" not in team_of({"one": asked("browser", "files")}, ("browser",), packaged)
    assert "one" in team_of({"one": asked("browser")}, ("browser",), packaged)
    assert "one" in team_of({"one": asked("shelf")}, (), packaged)  # the user's own are in every run
    analyzer = builtin_agents()["deep_analyzer"]
    assert team_of({analyzer.name: analyzer}, ("files",), packaged)[analyzer.name].environments == ("report",)
    assert team_of({analyzer.name: analyzer}, ("browser",), packaged)[analyzer.name].environments == ("report", "files")
    assert asked().content_hash != replace(asked(), on_request=False).content_hash


async def test_a_missing_browser_is_said_before_the_run(tmp_path: Path) -> None:
    async with opened(tmp_path, team(clerk, clerk), executable="no-such-browser") as ws:
        with pytest.raises(MissingExtraError, match="'no-such-browser', which is no program here; give the path"):
            await ws.run("Look around.", environments=["browser"])
        with pytest.raises(MissingExtraError, match="'no-such-browser'"):  # who names the agent names the browser
            await ws.run("Look around.", system="browser_use")
        assert not await ws.runs.list()


@pytest.mark.long
async def test_two_at_once_have_tabs_and_records_of_their_own(tmp_path: Path) -> None:
    """Both fill in a form at the same time, each its own."""

    def customer(request: ModelRequest) -> Any:
        page, task = page_of(request), task_of(request)
        name = "Ada" if "Ada" in task else "Grace"
        if "received" in page:
            number = re.search(r"Order \d+ received", page)
            return decide(calls=[call("done", answer=f"{name}: {number and number[0]}")])
        field = ref_of(page, "textbox", "Name")
        if not field:
            return decide(calls=[call("browser_go_to_url", url=task.rpartition(" ")[2])])
        fill = call("browser_input_text", ref=field, text=name, site=host_of(page))
        return decide(calls=[fill, call("browser_click", ref=ref_of(page, "button", "Send order"))])

    def planner(request: ModelRequest) -> Any:
        said = results_of(request)
        if said:
            assert "Ada: Order" in said[0]
            assert "Grace: Order" in said[1]
            return decide(calls=[call("done", answer="both ordered")])
        address = task_of(request).rpartition(" ")[2]
        return decide(calls=[call("browser_use", task=f"Order for {name} at {address}") for name in ("Ada", "Grace")])

    async with browser_site() as site, opened(tmp_path, team(planner, customer), site.host) as ws:
        task = f"Order for Ada and for Grace at {site.address}/form"
        result = await ws.run(task, environments=["browser"])
        assert result.answer == "both ordered", result.error
        assert sorted(one["name"] for one in site.forms) == ["Ada", "Grace"]
        records = sorted(one.name for one in (ws.files.root / result.run_id / "browser").iterdir())
        assert len(records) == 2
        for name in records:
            log = (ws.files.root / result.run_id / "browser" / name / "log.jsonl").read_text()
            assert ('"text": "Ada"' in log) is not ('"text": "Grace"' in log)


@pytest.mark.long
async def test_a_browser_that_is_killed_in_the_middle_of_an_agent_is_no_end_of_its_run(tmp_path: Path) -> None:
    killed: list[int] = []

    def accident(request: ModelRequest) -> Any:
        if not killed and ref_of(page_of(request), "textbox", "Password"):
            for one in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # those that end with the one that was killed
                    if "chrom" in one.name() and not any(word.startswith("--type=") for word in one.cmdline()):
                        one.kill()
                        killed.append(one.pid)
        return clerk(request)

    def planner(request: ModelRequest) -> Any:
        return decide(calls=[call("browser_use", task=task_of(request))])

    async with (
        browser_site() as site,
        opened(
            tmp_path,
            team(planner, accident),
            site.host,
            environ={"SITE_PASSWORD": PASSWORD},
            logins={site.host: ["SITE_PASSWORD"]},
        ) as ws,
    ):
        task = f"Sign in at {site.address}/login as {USER}: which balance?"
        result = await ws.run(task, environments=["browser"])
        assert killed
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "1,204 shells")
        # The password is in no log, no report and nothing else that was kept.
        kept = [one for one in tmp_path.rglob("*") if one.is_file()]
        assert {"log.jsonl", "report.md", "workspace.db"} <= {one.name for one in kept}
        assert not [one for one in kept if PASSWORD.encode() in one.read_bytes()]
        # It named no page, so the one is named on which its words stand.
        assert [(one.source, one.quote) for one in result.sources] == [(f"{site.address}/account", "1,204 shells")]


@pytest.mark.long
async def test_a_record_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    async with browser_site() as site, opened(tmp_path, team(clerk, clerk), site.host) as ws:
        task = f"Sign in at {site.address}/login as {USER} with the password {PASSWORD}: which balance?"
        run_id = await ws.create(task, system="browser_use")
        ws.files.root.joinpath(run_id).mkdir(parents=True, exist_ok=True)
        (ws.files.root / run_id / "browser").write_text("in the way")
        (record,) = await whole_runs(ws)
        assert record.manifest.max_steps == 50
        result = await ws.resume(run_id)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "1,204 shells"), result.error
    assert "Record" not in result.report


async def test_an_agent_that_is_in_other_runs_only_is_named_as_such(tmp_path: Path) -> None:
    @tool(effect="composite")
    async def send_out(ctx: RunContext[Any]) -> str:
        """Send the browser use agent out."""
        result = await ctx.call_agent(AgentSpec(instruction="Look around.", system="browser_use"))
        return result.report

    def model(request: ModelRequest) -> Any:
        said = results_of(request)
        return decide(calls=[call("done", answer=said[-1]) if said else call("send_out")])

    with_tool = Workspace(tmp_path / "ws", tools=[send_out], models={"scripted": ScriptedModel(model)})
    async with with_tool as ws:
        result = await ws.run("Look around.", system="react", model="scripted")
    assert "the agent 'browser_use' is not in this run" in f"{result.answer} {result.error}"
    assert "runs that have browser; name environments" in f"{result.answer} {result.error}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("goal", "answer", "where"),
    [
        ("", "tab 1 is at {site}/article", "what its last action gave"),
        ("the power of the wheel", "7.2 kilowatts on average", "what it extracted from pages"),
    ],
)
async def test_out_of_steps_it_gives_what_it_found_and_records_nothing_where_nobody_wants_it(
    tmp_path: Path, goal: str, answer: str, where: str
) -> None:
    def lost(request: ModelRequest) -> Any:
        done = results_of(request)
        if not done:
            return decide(calls=[call("browser_go_to_url", url=task_of(request).rpartition(" ")[2])])
        if goal and len(done) == 1:
            return decide(calls=[call("browser_extract_content", goal=goal)])
        return decide(calls=[call("browser_scroll_to_text", text="nowhere at all")])

    def reader(request: ModelRequest) -> Any:
        """Gives the sentence of the page that holds a word of the goal."""
        text = render_message(request.messages[-1])
        return say(next(line for line in text.splitlines() if "wheel gives" in line))

    model = team(lost, lost, reader=reader)
    async with browser_site() as site, opened(tmp_path, model, site.host, record=False) as ws:
        result = await ws.run(f"What stands at {site.address}/article", system="browser_use", max_steps=5)
        replayed = await ws.replay(result.run_id)
        assert result.status is RunStatus.PARTIAL
        assert answer.format(site=site.address) in result.answer
        assert f"The agent did not finish; the answer is {where}." in result.report
        assert replayed.answer == result.answer_text
        assert not [one for one in result.artifacts if one.name.endswith(("log.jsonl", "report.md", "steps.gif"))]
        assert not (ws.files.root / result.run_id / "browser").exists()


@pytest.mark.long
async def test_references_of_a_page_that_is_gone_are_refused_and_sources_that_were_not_seen_are_corrected(
    tmp_path: Path,
) -> None:
    claims: list[str] = []

    def hasty(request: ModelRequest) -> Any:
        page, said = page_of(request), results_of(request)
        if "Welcome, ada" in page:
            claims.append("<problem>" if "<problem>" in page else "")
            quote = "Your balance is 1,204 shells." if claims[-1] else "Your balance is 1,205 shells."
            source: Any = {"source": f"http://{host_of(page)}/account", "quote": quote}
            return decide(calls=[call("done", answer="1,204 shells", sources=[source])])
        if not said:
            return decide(calls=[call("browser_go_to_url", url=task_of(request).split()[2])])
        first = signing_in(request, USER, PASSWORD)
        # It sends the form and, in the same breath, clicks what was on the page before.
        again = call("browser_click", ref=ref_of(page, "textbox", "User"))
        return decide(calls=[*first.tool_calls, again])

    async with browser_site() as site, opened(tmp_path, team(hasty, hasty), site.host) as ws:
        task = f"Open now {site.address}/login and sign in as {USER} with {PASSWORD}"
        result = await ws.run(task, system="browser_use")
        log = next((ws.files.root / result.run_id / "browser").glob("*/log.jsonl")).read_text()
        calls = [one for one in map(json.loads, log.splitlines()) if one["type"] == "call"]
    assert result.answer == "1,204 shells"
    assert [one.quote for one in result.sources] == ["Your balance is 1,204 shells."]
    assert claims == ["", "<problem>"]
    refused = [one for one in calls if one["status"] != "ok"]
    assert len(refused) == 1
    assert "look at the state again" in refused[0]["result"]


@pytest.mark.long
async def test_a_process_that_dies_leaves_a_run_that_goes_on_signed_in(tmp_path: Path) -> None:
    async with browser_site() as site:
        task = f"Sign in at {site.address}/login as {USER} with the password {PASSWORD}: which balance?"
        words = ("-m", "tests.agents.browsing_program", str(tmp_path), site.host, task)
        process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=Path(__file__).parents[2])
        assert await process.wait() == -signal.SIGKILL
        pictures = sorted(tmp_path.rglob("frames/*.jpg"))
        assert pictures
        async with opened(tmp_path, team(clerk, clerk), site.host) as ws:
            (record,) = await ws.runs.list()
            result = await ws.resume(record.id)
            replayed = await ws.replay(record.id)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "1,204 shells"), result.error
        assert replayed.answer == result.answer_text
        assert len(site.sessions) == 1  # it was not signed in a second time
        (gif,) = tmp_path.rglob("steps.gif")
        assert gif.parent == pictures[0].parent.parent  # the record goes on where it was


async def test_what_a_form_answered_is_never_asked_for_again(tmp_path: Path) -> None:
    """The answer of a form has the form's address: whoever opened it again to verify would see an empty form."""

    def planner(request: ModelRequest) -> Any:
        said = results_of(request)
        if not said:
            return decide(calls=[call("browser_use", task=task_of(request))])
        sources = json.loads(said[-1])["sources"]
        return decide(calls=[call("done", answer="The order was received.", sources=sources)])

    def clerk(request: ModelRequest) -> Any:
        page, address = page_of(request), task_of(request).rpartition(" ")[2]
        if not results_of(request):
            return decide(calls=[call("browser_go_to_url", url=address)])
        if "Order 1 received" in page:
            cited: Any = {"source": address, "quote": "Order 1 received"}
            return decide(calls=[call("done", answer="Order 1 received", sources=[cited])])
        name = ref_of(page, "textbox", "Name")
        typed = call("browser_input_text", ref=name, text="Ada", site=host_of(page))
        return decide(calls=[typed, call("browser_click", ref=ref_of(page, "button", "Send order"))])

    def verifier(request: ModelRequest) -> Any:
        raise AssertionError("nobody has to look again")

    async with browser_site() as site, opened(tmp_path, team(planner, clerk, analyzer=verifier), site.host) as ws:
        result = await ws.run(f"Order oysters for Ada at {site.address}/form", environments=["browser"])
        assert (result.status, len(site.forms)) == (RunStatus.COMPLETED, 1), result.report
        assert [one.quote for one in result.sources] == ["Order 1 received"]
        assert [one.method for one in site.requests if one.path == "/form"] == ["GET", "POST"]


@pytest.mark.long
async def test_an_answer_without_words_of_its_page_is_judged_by_the_page_as_it_was_shown(tmp_path: Path) -> None:
    """The agent misreports the page and quotes nothing; the judge is shown the recorded page and says so."""
    judged: list[str] = []

    def planner(request: ModelRequest) -> Any:
        if not results_of(request):
            return decide(calls=[call("browser_use")])
        said = "\n".join(render_message(one) for one in request.messages)
        received = "the page says: Order 1 received" in said
        return decide(calls=[call("done", answer="Order 1 received" if received else "It was refused.")])

    def clerk(request: ModelRequest) -> Any:
        page, address = page_of(request), task_of(request).rpartition(" ")[2]
        if not results_of(request):
            return decide(calls=[call("browser_go_to_url", url=address)])
        if "Order 1 received" in page:
            return decide(calls=[call("done", answer="The order was refused by the site.")])
        name = ref_of(page, "textbox", "Name")
        typed = call("browser_input_text", ref=name, text="Ada", site=host_of(page))
        return decide(calls=[typed, call("browser_click", ref=ref_of(page, "button", "Send order"))])

    def judge(request: ModelRequest) -> Any:
        said = "\n".join(render_message(one) for one in request.messages)
        judged.append(said)
        wrong = "Order 1 received" in said.partition("</answer>")[2] and "refused" in said.partition("</answer>")[0]
        problem = "the page says: Order 1 received" if wrong else ""
        return say(json.dumps({"reason": problem or "it follows", "settle": "", "supported": not wrong}))

    async with browser_site() as site, opened(tmp_path, team(planner, clerk, reader=judge), site.host) as ws:
        result = await ws.run(f"Order oysters for Ada at {site.address}/form", environments=["browser"])
        assert result.answer == "Order 1 received", (result.answer, result.report, judged)
        assert len(site.forms) == 1
        assert (await ws.replay(result.run_id)).answer == result.answer_text
