"""`cost`, and the options that name sessions and roles."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import ModelUnavailableError, UnknownRoleError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import (
    AOrchestraSettings,
    ModelProfile,
    Price,
    ProgramSettings,
    Settings,
    TeamSettings,
)
from agentorchestra.core.spec import RunResult
from agentorchestra.models.client import with_usage
from agentorchestra.models.prices import uncertain
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.cli.team import TASK, TeamModel, price_of, study, team
from tests.support import team as roles
from tests.support.cli_reading import here, invoke

__all__ = ["here"]

WS = Path(".agentorchestra")


def runs() -> list[RunResult]:
    """Two runs of the team with labels, and one of a model without a known price."""

    async def work() -> list[RunResult]:
        async with team(WS, in_memory=False, fail_first=True) as ws:
            first = await ws.run(TASK, model="scripted", system="react", labels={"who": "me", "what": "offers"})
            second = await ws.run(TASK, model="scripted", system="react", labels={"who": "you"})
        dark = ScriptedModel(lambda request: call("done", answer="4"), name="dark", price=None)
        async with Workspace(WS, models={"dark": dark}) as ws:
            third = await ws.run("2 + 2?", model="dark", system="react")
        return [first, second, third]

    return asyncio.run(work())


@pytest.mark.long
def test_it_adds_up_what_the_results_say() -> None:
    first, second, third = runs()
    found = json.loads(invoke("cost", "--json").stdout)
    rows = {row["name"]: row for row in found["rows"]}
    assert set(rows) == {"scripted", "dark"}
    both = first.usage + second.usage
    assert rows["scripted"]["cost_usd"] == pytest.approx(both.cost_usd)
    for name in ("requests", "input_tokens", "output_tokens"):
        assert rows["scripted"][name] == getattr(both, name)
        assert found["total"][name] == getattr(both + third.usage, name)
    assert rows["scripted"]["runs"] == 2
    assert rows["dark"]["cost_usd"] is None
    assert rows["dark"]["unpriced"] == 1
    assert found["total"]["cost_usd"] is None
    assert found["total"]["known_cost_usd"] == pytest.approx(both.cost_usd)
    assert found["total"]["runs"] == 3


def test_by_agent_label_day_and_run() -> None:
    first, second, third = runs()
    by = {
        kind: {row["name"]: row for row in json.loads(invoke("cost", "--by", kind, "--json").stdout)["rows"]}
        for kind in ("agent", "label", "day", "run")
    }
    assert set(by["agent"]) == {"react", "reader-A", "reader-B"}
    assert by["agent"]["reader-A"]["requests"] == 4
    assert set(by["label"]) == {"who=me", "what=offers", "who=you", "(no label)"}
    assert by["label"]["who=me"]["cost_usd"] == by["label"]["what=offers"]["cost_usd"] == pytest.approx(first.cost_usd)
    assert by["label"]["(no label)"]["requests"] == third.usage.requests
    assert sum(row["requests"] for row in by["day"].values()) == sum(
        one.usage.requests for one in (first, second, third)
    )
    assert set(by["run"]) == {one.run_id for one in (first, second, third)}


def test_the_table() -> None:
    first, second, third = runs()
    lines = invoke("cost").stdout.splitlines()
    assert lines[0].split() == ["model", "requests", "input", "cached", "output", "cost"]
    assert lines[1].split()[:2] == ["scripted", str(first.usage.requests + second.usage.requests)]
    assert lines[2].endswith("unknown price")
    assert lines[3].startswith("total of 3 runs")
    assert lines[3].endswith("and 1 request of unknown price")
    one = invoke("cost", third.run_id).stdout.splitlines()
    assert (one[1].split()[0], one[2].split()[:4]) == ("dark", ["total", "of", "1", "run"])


@pytest.mark.long
def test_by_source() -> None:
    first, _, _ = runs()
    found = json.loads(invoke("cost", first.run_id, "--by", "source", "--json").stdout)
    rows = {row["source"]: row for row in found["rows"]}
    assert rows["tool schemas"]["requests"] == first.usage.requests
    assert "tool price_of" in rows
    assert found["total"]["tokens"] == pytest.approx(first.usage.input_tokens, abs=len(rows))
    assert invoke("cost", "--by", "source").stdout.splitlines()[0].split() == ["source", "requests", "input", "largest"]


# -- the parts of a bill -----------------------------------------------------------------------------------------------

PRICE = Price(input=1.0, output=5.0)


@tool(effect="composite")
async def compared(ctx: RunContext[Any], texts: list[str]) -> int:
    """Compare texts by their vectors.

    Args:
        texts: to be compared.
    """
    return len(await ctx.embed(texts))


def parts_of(run_id: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows by part and model; every other split has the same total, which is the sum of these rows."""
    found = {
        by: json.loads(invoke("cost", run_id, "--by", by, "--json").stdout) for by in ("part", "model", "agent", "run")
    }
    total = found["part"]["total"]
    assert all(one["total"] == total for one in found.values())
    for name in ("requests", "input_tokens", "output_tokens", "uncertain_tokens", "known_cost_usd", "unpriced"):
        assert sum(row[name] for row in found["part"]["rows"]) == pytest.approx(total[name]), name
    return {(row["name"], row["model"]): row for row in found["part"]["rows"]}


@pytest.mark.long
def test_the_parts_of_a_run_with_delegations() -> None:
    """A child has agents below it and embeds texts; its log is reviewed, the first time without an answer."""

    def lead(request: ModelRequest) -> Any:
        if roles.results(request):
            return call("complete", answer="B")
        return call(
            "delegate_task", task_instruction="Compare.", tools=["study", "price_of", "todo", "compared"], model="hand"
        )

    def hand(request: ModelRequest) -> Any:
        steps = [call("study", offers=["A", "B"]), call("compared", texts=["A", "B"]), call("done", answer="B")]
        return decide(calls=[steps[len(roles.results(request))]])

    def eye(request: ModelRequest) -> Any:
        if len(models["eye"].requests) == 1:
            lost = uncertain(Usage(input_tokens=90, output_tokens=10), 0.5)
            raise with_usage(ModelUnavailableError("cut", retry_after_s=0.0), lost)
        return say('{"points": ["B is cheaper."], "issues": []}')

    models = {
        "lead": ScriptedModel(lead, name="lead", price=PRICE),
        "hand": ScriptedModel(hand, name="hand", price=PRICE),
        "reader": ScriptedModel(TeamModel(), name="reader", price=None),
        "eye": ScriptedModel(eye, name="eye", price=PRICE),
    }

    async def work() -> RunResult:
        async with LoopbackModelServer("unused") as server:
            vectors = ModelProfile(model="openai:vectors", base_url=server.base_url, price=PRICE)
            settings = Settings(
                models={"vectors": vectors},
                embedding_model="vectors",
                aorchestra=AOrchestraSettings(models=("hand", "lead"), review_from=1),
            )
            tools = [study, price_of, compared]
            async with Workspace(WS, models=models, settings=settings, tools=tools) as ws:
                who = {"main": "lead", "analyzer": "reader", "reviewer": "eye"}
                return await ws.run(TASK, system="aorchestra", model="lead", roles=who)

    result = asyncio.run(work())
    assert result.answer == "B"
    rows = parts_of(result.run_id)
    assert {name: row["requests"] for name, row in rows.items()} == {
        ("orchestrator", "lead"): 2,
        ("children", "hand"): 3,
        ("children", "reader"): 4,
        ("helpers", "eye"): 1,
        ("helpers", "openai:vectors"): 1,
    }
    assert (rows["children", "reader"]["cost_usd"], rows["children", "reader"]["unpriced"]) == (None, 4)
    eye_row = rows["helpers", "eye"]
    assert (eye_row["uncertain_tokens"], eye_row["uncertain_usd"]) == (100, 0.5)
    assert 0 < eye_row["cost_usd"] < 0.5
    lines = [line.split() for line in invoke("cost", result.run_id, "--by", "part").stdout.splitlines()]
    assert lines[0] == ["part", "model", "requests", "input", "cached", "output", "cost"]
    assert [line[0] for line in lines[1:-1]] == ["orchestrator", "children", "children", "helpers", "helpers"]
    assert lines[1][:3] == ["orchestrator", "lead", "2"] and lines[-1][:5] == ["total", "of", "1", "run", "11"]


@pytest.mark.long
def test_the_parts_of_a_run_of_the_team(here: Path) -> None:
    (here / "lease.txt").write_text("The rent is 900 euros.\nThe deposit is 1284 euros.\n")

    def planner(request: ModelRequest) -> Any:
        if not roles.results(request):
            return decide(calls=[call("deep_analyzer", task="How much is the deposit? See lease.txt")])
        return roles.done(long, roles.DEPOSIT)

    long = "The deposit that the tenant paid when the lease began amounts to 1284 euros, as the lease itself says it."
    model = roles.team(planner)

    async def work() -> RunResult:
        async with Workspace(WS, settings=Settings(team=TeamSettings(shorten=True))) as ws:
            return await ws.run("How much is the deposit?", files=[here / "lease.txt"], model=model)

    result = asyncio.run(work())
    assert result.answer == long
    asked = Counter(roles.role_of(request) for request in model.requests)
    assert asked["formatter"] == 1
    assert {name: row["requests"] for name, row in parts_of(result.run_id).items()} == {
        ("orchestrator", "scripted"): asked["planner"],
        ("children", "scripted"): asked["analyzer"],
        ("helpers", "scripted"): asked["judge"] + asked["formatter"],
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("system", "part"), [("prog", "orchestrator"), ("aorchestra", "children")])
def test_what_a_program_cost_elsewhere_is_its_own(system: str, part: str) -> None:
    def lead(request: ModelRequest) -> Any:
        if roles.results(request):
            return call("complete", answer="over")
        return call("delegate_task", task_instruction="Go.", tools=["price_of"])

    programs = {"prog": ProgramSettings(command=(sys.executable, "-c", "print('elsewhere')"))}
    settings = Settings(programs=programs, aorchestra=AOrchestraSettings(executor="prog"))

    async def work() -> RunResult:
        models = {"lead": ScriptedModel(lead, name="lead")}
        async with Workspace(WS, models=models, settings=settings, tools=[price_of]) as ws:
            return await ws.run("Go.", system=system, model="lead")

    rows = parts_of(asyncio.run(work()).run_id)
    assert {name for name, row in rows.items() if row["unpriced"]} == {(part, "(no model)")}


def test_without_runs(here: Path) -> None:
    empty = invoke("cost")
    assert empty.exit_code == 0
    assert "no runs in .agentorchestra yet" in empty.stderr
    assert not WS.exists()


# -- sessions and roles ------------------------------------------------------------------------------------------------

APP = """
from agentorchestra import Workspace
from agentorchestra.testing import ScriptedModel, call


def answer(request):
    seen = " ".join(f"{message.text} {message.tool_calls}" for message in request.messages)
    return call("done", answer="again" if "forty-two" in seen else "forty-two")


def workspace():
    models = {name: ScriptedModel(answer, name=name) for name in ("one", "two")}
    return Workspace(models=models)
"""


@pytest.fixture
def app(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An application whose model answers otherwise once it sees its earlier answer."""
    name = f"app_{here.name}"
    (here / f"{name}.py").write_text(APP)
    (here / "agentorchestra.toml").write_text(f'app = "{name}:workspace"\nmodel = "one"\nsystem = "react"\n')
    monkeypatch.syspath_prepend(str(here))
    return here


@pytest.mark.long
def test_a_session_goes_on(app: Path) -> None:
    first = json.loads(invoke("run", "What is it?", "--session", "deep", "--json").stdout)
    other = json.loads(invoke("run", "What is it?", "--session", "other", "--json").stdout)
    assert (first["answer"], other["answer"]) == ("forty-two", "forty-two")
    second = invoke("run", "And now?", "--session", "deep")
    assert second.stdout.startswith("again\n")
    assert "session deep: 1 earlier task" in second.stderr
    listed = json.loads(invoke("runs", "--session", "deep", "--json").stdout)
    assert [one["session"] for one in listed] == ["deep", "deep"]
    assert listed[1]["run_id"] == first["run_id"]
    assert len(json.loads(invoke("runs", "--session", "deep", "--limit", "1", "--json").stdout)) == 1
    assert f"session: deep (1 earlier task; the turn before: {first['run_id']})" in invoke("show", "last").stdout
    assert "no runs of the session 'none'" in invoke("runs", "--session", "none").stderr


def test_a_role_has_a_model(app: Path) -> None:
    done = invoke("run", "What is it?", "--role", "agent=two", "--json")
    assert json.loads(done.stdout)["usage_by_model"].keys() == {"two"}
    assert "roles: agent=two" in invoke("show", "last").stdout
    with pytest.raises(UnknownRoleError, match=r"plays the role 'plannr'; did you mean 'planner'\?"):
        invoke("run", "What is it?", "--role", "plannr=two")
    assert len(json.loads(invoke("runs", "--json").stdout)) == 1  # the first one: nothing was begun


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--role", "planner"], "'planner' is not of the form role=model"),
        (["--role", "planner="], "'planner=' is not of the form role=model"),
        (["--role", "a=one", "--role", "a=two"], "'a' is given more than once; a role has one value"),
    ],
)
def test_a_role_that_does_not_fit(app: Path, words: list[str], sentence: str) -> None:
    done = invoke("run", "What?", *words)
    assert done.exit_code == 2
    assert sentence in done.output
    assert not WS.exists()
