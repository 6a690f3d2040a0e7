"""`cost`, and the options that name sessions and roles."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentorchestra.core.spec import RunResult
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import Workspace
from tests.cli.team import TASK, team
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


def test_by_source() -> None:
    first, _, _ = runs()
    found = json.loads(invoke("cost", first.run_id, "--by", "source", "--json").stdout)
    rows = {row["source"]: row for row in found["rows"]}
    assert rows["tool schemas"]["requests"] == first.usage.requests
    assert "tool price_of" in rows
    assert found["total"]["tokens"] == pytest.approx(first.usage.input_tokens, abs=len(rows))
    assert invoke("cost", "--by", "source").stdout.splitlines()[0].split() == ["source", "requests", "input", "largest"]


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
    seen = " ".join(message.text for message in request.messages)
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
    assert "session: deep (1 earlier task)" in invoke("show", "last").stdout
    assert "no runs of the session 'none'" in invoke("runs", "--session", "none").stderr


def test_a_role_has_a_model(app: Path) -> None:
    done = invoke("run", "What is it?", "--role", "agent=two", "--json")
    assert json.loads(done.stdout)["usage_by_model"].keys() == {"two"}
    assert "roles: agent=two" in invoke("show", "last").stdout
    slip = invoke("run", "What is it?", "--role", "plannr=two")
    assert slip.exit_code == 0
    assert "warning: no agent of this workspace plays the role 'plannr'; the roles: agent, analyzer," in slip.stderr


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
