"""The planner's course: verified by another agent, changed by the user, short for what is simple (000, D.2, E.2)."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.transformations.a2t import a2t
from agentorchestra.agents.user_messages import MOST_TOLD
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import UnknownComponentError, UnknownModelError
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.models.render import parse_contents
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import call, decide, say
from agentorchestra.workspace import Workspace
from tests.chaos.support import kill_points, only_run, python, read_log
from tests.site import Site, served
from tests.site.pages import PAGES, Page
from tests.systems.planning import by_prompt, done, results, shown
from tests.systems.tower import AUDITOR, NEW, OLD, SCOUT, TOWER, auditor, page, planner, scout, settings, task


@pytest.fixture
async def site(monkeypatch: Any) -> AsyncIterator[Site]:
    """Two pages on one thing, of which the later one corrects the earlier."""
    for path, one in TOWER.items():
        monkeypatch.setitem(PAGES, path, one)
    async with served() as running:
        yield running


async def led(site: Site, lead: Any, *, others: Any = None, **team: Any) -> tuple[RunResult, list[Event]]:
    """The run of one question, and its log; the replay gives the same."""
    scripts = {"planner": lead, "agent": scout, "verifier": auditor, **(others or {})}
    given: Any = {"agents": [SCOUT, AUDITOR], "settings": settings(site.address, **team), "store": MemoryStore()}
    async with Workspace(**given) as ws:
        result = await ws.run(task(site.address), model=by_prompt(**scripts))
        assert (await ws.replay(result.run_id)).answer == result.answer_text
        return result, await ws.log.events(result.run_id)


def asked_for(events: list[Event]) -> list[tuple[str, str]]:
    """The agents that were asked, with what for, in order."""
    effects = [event.body["effect"] for event in events if event.type == "started" and event.body.get("effect")]
    return [(one["arguments"]["name"], one["purpose"]) for one in effects if one["kind"] == "InvokeAgent"][1:]


# -- retrieve, verify, synthesise --------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "verifier"),
    [("", "deep_analyzer"), ("How many steps are there?", "auditor")],
    ids=["early finish, the usual verifier", "the planner's words, another verifier"],
)
async def test_a_wrong_fact_that_another_agent_contradicts_is_not_the_answer(
    site: Site, words: str, verifier: str
) -> None:
    """What the planner answers is what stands in its prompt: only the second agent brings the right number there."""
    team = {} if verifier == "deep_analyzer" else {"verifier": verifier}
    result, events = await led(site, planner(words), **team)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "It has 212 steps."), result.report
    assert asked_for(events)[:2] == [("scout", "agent"), (verifier, "verification")]
    assert [one.source for one in result.sources] == [f"{site.address}{NEW}"]
    assert site.asked(NEW), "it was looked at"


@pytest.mark.parametrize(
    "words",
    [pytest.param("", marks=pytest.mark.long, id="early finish"), pytest.param("How many steps?", id="its own words")],
)
async def test_without_verification_the_wrong_fact_stands(site: Site, words: str) -> None:
    result, events = await led(site, planner(words), verify="off", verifier="auditor")
    assert "112" in result.answer and asked_for(events) == [("scout", "agent")]


@pytest.mark.long
async def test_what_is_confirmed_is_the_answer_and_asked_once(site: Site, monkeypatch: Any) -> None:
    monkeypatch.setitem(PAGES, NEW, Page("The tower", "<p>Since 2021 the tower has 112 steps.</p>"))
    result, events = await led(site, planner(), verifier="auditor")
    assert result.answer == "112 steps"
    assert asked_for(events) == [("scout", "agent"), ("auditor", "verification")]


async def test_a_page_that_was_read_twice_is_shown_to_the_judge_once(site: Site) -> None:
    asked: list[str] = []

    def judge(request: ModelRequest) -> ModelResponse:
        asked.append(shown(request))
        return say('{"supported": true, "reason": "it stands there", "settle": ""}')

    def lead(request: ModelRequest) -> ModelResponse:
        if len(results(request)) < 2:
            words = f"How many steps? Look {len(results(request)) + 1}: {page(request, OLD)}"
            return decide(calls=[call("scout", task=words)])
        return done("The tower has 112 steps as of 1998, and that is many.")

    await led(site, lead, others={"judge": judge}, verify="off")
    (text,) = asked
    assert text.count("scout (completed): 112 steps") == 2
    assert text.count("scout called fetch") == text.count("It gave: ") == text.count("# The tower of Arn") == 1


@pytest.mark.long
async def test_two_agents_that_cite_the_same_page_need_no_third(site: Site) -> None:
    """The second one was asked by the planner itself."""

    def lead(request: ModelRequest) -> ModelResponse:
        if not results(request):
            return decide(calls=[call("scout", task="How many steps?"), call("auditor", task="How many steps?")])
        given = json.loads(results(request)[-1])
        return done(f"It has {given['answer']}.", *given["sources"])

    result, events = await led(site, lead, verifier="deep_analyzer")
    assert result.answer == "It has 112 steps."
    assert asked_for(events) == [("scout", "agent"), ("auditor", "agent")]


@pytest.mark.long
async def test_where_nobody_can_say_the_judge_is_asked(site: Site) -> None:
    """The verifying agent sees nothing; the judge sees what was found, and that it is of 1998."""

    def blind(request: ModelRequest) -> ModelResponse:
        return done("I could not open it.", output={"reason": "It did not open.", "verdict": "undecided"})

    def judge(request: ModelRequest) -> ModelResponse:
        old = "as of 1998" in shown(request) and "today" in shown(request)
        return say(json.dumps({"supported": not old, "problem": "that was in 1998" if old else ""}))

    def lead(request: ModelRequest) -> ModelResponse:
        if "that was in 1998" in shown(request):
            return done("It is not known.", status="blocked")
        return planner()(request)  # type: ignore[no-any-return]

    result, _ = await led(site, lead, others={"verifier": blind, "judge": judge}, verifier="auditor")
    assert (result.status, result.answer) == (RunStatus.BLOCKED, "It is not known.")


async def test_the_deep_researcher_reads_the_pages_of_the_claim(site: Site, monkeypatch: Any) -> None:
    """The page of the claim stands behind a link of the one that the task names. Both are read, nothing is searched."""
    monkeypatch.setitem(PAGES, "/towers", Page("Towers", f"<ul><li><a href='{OLD}'>The tower of Arn</a></li></ul>"))
    forms: list[str] = []

    def finder(request: ModelRequest) -> ModelResponse:
        followed = ("/towers", OLD)[len(results(request)) :]
        return decide(calls=[call("fetch", url=page(request, followed[0]))]) if followed else scout(request)

    def researcher(request: ModelRequest) -> ModelResponse:
        system, material = request.messages[0].text, request.messages[-1].text
        forms.append(next(one for one in ("You read one page", "You judge", "") if one in system))
        fact = "The tower has 112 steps, as of 1998."
        if forms[-1] == "You read one page":
            seen = [{"quote": fact, "piece": 1, "fact": fact, "relevance": 0.9}] if fact in material else []
            return say(json.dumps({"insights": seen}))
        if forms[-1] == "You judge" and f"“{fact}”" in material:
            verdict = {"reason": "It stands there.", "verdict": "confirmed"}
            return say(json.dumps({"complete": True, "report": f"{fact} [E1]", "answer": verdict}))
        return say("KEEP")

    scripts: Any = {"planner": planner(), "agent": finder, "formatter": researcher}
    given: Any = {"agents": [SCOUT], "settings": settings(site.address, verifier="deep_researcher")}
    async with Workspace(**given, store=MemoryStore()) as ws:
        result = await ws.run(f"How many steps has the tower of {site.address}/towers?", model=by_prompt(**scripts))
        events = await ws.log.events(result.run_id)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "112 steps"), result.report
    assert asked_for(events) == [("scout", "agent"), ("deep_researcher", "verification")]
    assert sorted(filter(None, forms)) == ["You judge", "You read one page", "You read one page"]
    calls = [str(event.body["effect"].get("component")) for event in events if event.type == "started"]
    assert not [one for one in calls if one.startswith("search@")]


async def test_a_verifier_that_is_no_agent_is_said() -> None:
    given = Settings.model_validate({"team": {"verifier": "auditer"}})
    async with Workspace(store=MemoryStore(), settings=given) as ws:
        result = await ws.run("Rest.", model=by_prompt(planner=lambda request: done("rested")))
    assert result.status is RunStatus.FAILED
    assert result.error is not None
    assert "name the agent 'auditer' as verifier (team.verifier), which is not there; the agents: " in result.error


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("chosen", "offered"),
    [
        (None, {"deep_analyzer", "deep_researcher", "reporter", "scout", "auditor"}),
        (["deep_researcher", "scout"], {"deep_researcher", "scout"}),
        ([], set()),
    ],
)
async def test_the_planner_has_the_agents_that_the_settings_choose(chosen: list[str] | None, offered: set[str]) -> None:
    seen: set[str] = set()

    def lead(request: ModelRequest) -> ModelResponse:
        if seen:
            return done("rested")
        seen.update(one.name for one in request.tools)
        return decide(calls=[call("auditor", task="Look."), call("todo", action="list")])

    given = Settings.model_validate({"team": {"agents": chosen}, "sandbox": {"backend": "none"}})
    async with Workspace(store=MemoryStore(), settings=given, agents=[SCOUT, AUDITOR]) as ws:
        result = await ws.run("Rest.", model=by_prompt(planner=lead, agent=lambda request: done("seen")))
        events = await ws.log.events(result.run_id)
    assert result.answer == "rested"
    assert seen - {"todo", "done", "python", "open_tools"} == offered
    assert asked_for(events) == [("auditor", "agent")] * ("auditor" in offered)


@pytest.mark.parametrize("chosen", [[], ["model_3", "model_7"]])
async def test_delegates_offer_the_models_that_the_settings_choose_and_no_others(chosen: list[str]) -> None:
    offered: dict[str, Any] = {}

    def lead(request: ModelRequest) -> ModelResponse:
        offered.update(
            {one.name: one.parameters["properties"].get("model", {}).get("enum", []) for one in request.tools}
        )
        return done("rested")

    profiles = {f"model_{number}": {"model": "openai:any"} for number in range(53)}
    given = Settings.model_validate({"models": profiles, "team": {"models": chosen}, "sandbox": {"backend": "none"}})
    async with Workspace(store=MemoryStore(), settings=given, environ={"OPENAI_API_KEY": "none"}) as ws:
        await ws.run("Rest.", model=by_prompt(planner=lead))
    assert offered["deep_researcher"] == offered["deep_analyzer"] == chosen


async def test_a_model_that_delegations_may_not_choose_is_refused() -> None:
    given = Settings.model_validate({"team": {"models": ["nobody"]}})
    async with Workspace(store=MemoryStore(), settings=given) as ws:
        with pytest.raises(UnknownModelError, match="nobody"):
            await ws.run("Rest.", model=by_prompt(planner=lambda request: done("rested")))


async def test_an_agent_of_the_team_that_is_not_there_is_refused() -> None:
    given = Settings.model_validate({"team": {"agents": ["deep_reader"]}})
    async with Workspace(store=MemoryStore(), settings=given) as ws:
        with pytest.raises(
            UnknownComponentError, match=r"choose the agent 'deep_reader' for the team \(team.agents\), "
        ):
            await ws.run("Rest.", model=by_prompt(planner=lambda request: done("rested")))
        assert await ws.runs.list() == []


# -- the objective changes ---------------------------------------------------------------------------------------------

LEASE = "The rent is 900 euros.\nThe deposit is 1284 euros.\nThe garage costs 75 euros.\n"
SHIFT = "Forget the deposit: what does the garage cost?"


def reader(request: ModelRequest) -> ModelResponse:
    """Answers with the line of the lease that holds the last word of its task, once it is shown the lease."""
    asked = re.search(r"<task>\n.*?(\w+)\W*\n</task>", request.messages[1].text, re.DOTALL)
    assert asked is not None
    seen = [one for one in parse_contents(shown(request)) if one.place.startswith("line")]
    every = [
        (int(one.place.split()[1].split("-")[0]) + at, line)
        for one in seen
        for at, line in enumerate(one.text.splitlines())
    ]
    lines = [(number, line.partition("\t")[2] or line) for number, line in every if asked[1] in line]
    if not lines:
        return decide(calls=[call("search_files", query=asked[1])])
    number, line = lines[0]
    return done(line, {"source": "lease.txt", "place": f"line {number}", "quote": line})


def obedient(request: ModelRequest) -> ModelResponse:
    """Makes a plan and follows it; changes it where its prompt says that the task has changed."""
    text = shown(request)
    if "Plan 'plan'" not in text:
        steps: Any = [{"text": "find the deposit", "agent": "deep_analyzer"}, {"text": "say it", "needs": [0]}]
        return decide(calls=[call("todo", action="create", title="The deposit", steps=steps)])
    if "reconsider: the task has changed" in text:
        assert "Every open step of the plan is marked" in text and SHIFT in text
        steps = [{"text": "find the garage", "agent": "deep_analyzer"}, {"text": "say it", "needs": [0]}]
        return decide(calls=[call("todo", action="update", title="The garage", steps=steps)])
    wanted = re.findall(r"0\. \[.\] find the (\w+)", text)[-1]
    for given in (json.loads(one) for one in results(request) if one.startswith("{")):
        if wanted in given["answer"]:
            return done(given["answer"], *given["sources"])
    return decide(calls=[call("deep_analyzer", task=f"What of the {wanted}")])


def stubborn(request: ModelRequest) -> ModelResponse:
    """Answers with the first thing that was found, until a judge says that it is not what was asked for."""
    found = [json.loads(one) for one in results(request) if one.startswith("{")]
    wanted = "garage" if "nothing of the garage" in shown(request) else "deposit"
    for given in found:
        if wanted in given["answer"]:
            return done(given["answer"], *given["sources"])
    return decide(calls=[call("deep_analyzer", task=f"What of the {wanted}")])


def strict(request: ModelRequest) -> ModelResponse:
    """A judge: the answer has to speak of what the user said last."""
    text = shown(request)
    asked = "garage" if f"what was said last holds: {SHIFT}" in text else "deposit"
    answer = re.search(r"<answer>\n(.*?)\n</answer>", text, re.DOTALL)
    assert answer is not None
    right = asked in answer[1]
    return say(json.dumps({"supported": right, "problem": "" if right else f"nothing of the {asked}"}))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lead", [obedient, stubborn])
async def test_an_objective_that_changes_in_the_middle(tmp_path: Path, lead: Any) -> None:
    """The user speaks while the analyzer reads: the plan is marked, the answer is judged by what was said last."""
    (tmp_path / "lease.txt").write_text(LEASE)
    async with Workspace(store=MemoryStore()) as ws:

        async def speaking(request: ModelRequest) -> ModelResponse:
            if not results(request) and "the deposit" in request.messages[1].text.partition("<original_task>")[0]:
                await ws.tell((await ws.runs.list())[0].id, SHIFT)
            return reader(request)

        model = by_prompt(planner=lead, agent=speaking, judge=strict)
        files = [tmp_path / "lease.txt"]
        result = await ws.run("How much is the deposit?", files=files, model=model)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "The garage costs 75 euros.")
        assert (await ws.replay(result.run_id)).answer == result.answer_text


CLERK = Agent("clerk", "Answers from a list of prices.", prompt="worker")
PRICES = {"deposit": "1284 euros", "garage": "75 euros"}


def clerk(request: ModelRequest) -> ModelResponse:
    """Answers with the price of what its own prompt asked for last; whoever leads it never names the thing."""
    asked = re.findall(r"deposit|garage", "".join(line for line in shown(request).splitlines() if "Forget" not in line))
    if SHIFT in shown(request):
        said = [block for one in request.messages for block in one.content if SHIFT in getattr(block, "text", "")]
        assert [one.trust for one in said] == [Trust.USER] and shown(request).count(SHIFT) == 1
        asked = ["garage"]
    return done(PRICES[asked[-1]] if asked else "nothing was asked for")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tells", [[SHIFT], [*(f"Note {number}: {'hurry ' * 100}" for number in range(30)), SHIFT]])
async def test_what_the_user_says_reaches_whoever_is_asked_afterwards(tells: list[str]) -> None:
    """The planner repeats nothing of it; the clerk and whom the deputy asks are shown it, once, so much of it."""
    deputy = Agent("deputy", "Has the clerk asked.", tools=("clerk_tool",), prompt="worker")
    lengths: list[int] = []
    async with Workspace(store=MemoryStore(), agents=[deputy, CLERK], tools=[*a2t(CLERK, name="clerk_tool")]) as ws:

        def lead(request: ModelRequest) -> ModelResponse:
            came = results(request)
            if len(came) < 3:
                asked = ("clerk", "clerk", "deputy")[len(came)]
                return decide(calls=[call(asked, task="Say what the user asked for.")])
            return done(" ".join(json.loads(one)["answer"] for one in came))

        async def answer(request: ModelRequest) -> ModelResponse:
            if any(one.name == "clerk_tool" for one in request.tools):
                came = results(request)
                return done(came[0]) if came else decide(calls=[call("clerk_tool", task="Say what was asked for.")])
            lengths.append(len(shown(request)))
            if len(lengths) == 1:
                for text in tells:
                    await ws.tell((await ws.runs.list())[0].id, text)
            return clerk(request)

        result = await ws.run("How much is the deposit?", model=by_prompt(planner=lead, agent=answer))
        assert result.answer == "1284 euros 75 euros 75 euros"
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    assert max(lengths) - lengths[0] < MOST_TOLD + 500


# -- simple tasks ------------------------------------------------------------------------------------------------------


async def test_a_simple_question_takes_few_tokens(tmp_path: Path) -> None:
    """One short file, one question: two requests, and tokens as the door estimates them (three characters each)."""
    (tmp_path / "lease.txt").write_text(LEASE)
    task = "How much is the deposit"
    model = by_prompt(planner=lambda request: decide(calls=[call("deep_analyzer", task=task)]), agent=reader)
    async with Workspace(store=MemoryStore()) as ws:
        result = await ws.run(task, files=[tmp_path / "lease.txt"], model=model)
        assert result.answer == "The deposit is 1284 euros."
        assert result.usage.requests == 2
        assert result.usage.input_tokens + result.usage.output_tokens <= 3_500


# -- killed ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_killed_while_an_answer_is_verified_it_goes_on(site: Site, tmp_path: Path) -> None:
    """At points before, in and after the verification: nothing recorded is asked again, and the answer is the same."""

    async def run(number: int, what: str, kill_at: str = "") -> str:
        words: list[str | Path] = ["-m", "tests.systems.verify_program", tmp_path / f"{number}", site.address, what]
        return await asyncio.to_thread(python, words, kill_at=kill_at)

    async def log(number: int) -> list[Event]:
        folder = tmp_path / f"{number}" / "ws"
        return await read_log(folder, await only_run(folder))

    assert await run(0, "run") == "completed: It has 212 steps.\n"
    events = await log(0)
    (span,) = {
        str(event.span)
        for event in events
        if event.type == "started" and event.body["effect"].get("purpose") == "verification"
    }
    inside = [
        point for point in kill_points(events) if point.partition(":")[2].startswith((span, span.replace("#", "/")))
    ]
    assert len(inside) > 10
    for number, point in enumerate(inside[:: len(inside) // 3], start=1):
        await run(number, "run", point)
        before = await log(number)
        assert not any(event.type == "run_ended" for event in before), point
        assert await run(number, "resume") == "completed: It has 212 steps.\n", point
        completed = [event.span for event in await log(number) if event.type == "completed"]
        assert len(completed) == len(set(completed)), point
        asked = Counter((tmp_path / f"{number}" / "asked.txt").read_text().split())
        assert sum(asked.values()) - len(asked) <= 1, f"{point}: asked again: {asked}"


@pytest.mark.long
async def test_after_an_honest_undecided_nobody_is_asked_about_the_same_pages_again(site: Site) -> None:
    """The judge sends the answer back twice; the planner words it anew, and the same pages stand behind it."""

    def blind(request: ModelRequest) -> ModelResponse:
        return done("I could not open it.", output={"verdict": "undecided"})

    def lead(request: ModelRequest) -> ModelResponse:
        if not results(request):
            return decide(calls=[call("scout", task="How many steps are there?")])
        given = json.loads(results(request)[-1])
        return done(f"{len(request.messages)}: it has {given['answer']}.", *given["sources"])

    def judge(request: ModelRequest) -> ModelResponse:
        return say('{"supported": false, "problem": "that was in 1998"}')

    _, events = await led(site, lead, others={"verifier": blind, "judge": judge}, verifier="auditor")
    assert asked_for(events).count(("auditor", "verification")) == 1


async def test_a_verifier_gets_no_tool_that_writes(site: Site) -> None:
    @tool(effect="write")
    def forget(page: str) -> str:
        """Delete what is known of a page."""
        raise AssertionError(page)

    offered: dict[str, list[str]] = {}

    def noted(name: str, reply: Any) -> Any:
        def answer(request: ModelRequest) -> ModelResponse:
            offered.setdefault(name, [one.name for one in request.tools])
            return reply(request)  # type: ignore[no-any-return]

        return answer

    armed = replace(AUDITOR, tools=("fetch", "forget"))
    lead = planner("How many steps are there?")
    model = by_prompt(planner=lead, agent=noted("agent", scout), verifier=noted("verifier", auditor))
    given: Any = {"agents": [replace(SCOUT, tools=("fetch", "forget")), armed], "tools": [forget]}
    async with Workspace(settings=settings(site.address, verifier="auditor"), store=MemoryStore(), **given) as ws:
        result = await ws.run(task(site.address), model=model)
        assert result.answer == "It has 212 steps.", result.report
    assert "forget" in offered["agent"] and "fetch" in offered["verifier"] and "forget" not in offered["verifier"]
