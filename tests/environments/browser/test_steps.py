"""`act`: several steps in one call, each judged as the single action; `look`: what the state does not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.agents.browsing import page_of, ref_of, results_of
from tests.environments.browser.hand import at_work
from tests.site.browser import browser_site
from tests.support.browsers import settings_for

from agentorchestra import Workspace
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.testing import ScriptedModel, call, decide

pytestmark = [pytest.mark.long, pytest.mark.real]

ACTION = EffectKind.INVOKE_ACTION


def step(do: str, ref: str = "", text: str = "") -> Any:
    """A step, without what is not given."""
    return {"do": do} | {name: value for name, value in (("ref", ref), ("text", text)) if value}


def went(address: str) -> Any:
    return decide(calls=[call("browser_act", steps=[step("go", text=address)])])


async def test_a_form_is_filled_in_and_sent_by_one_call(tmp_path: Path) -> None:
    """The click brings the next page: what stands behind it is not done there."""
    async with browser_site() as site:

        def reply(request: ModelRequest) -> Any:
            done, page = results_of(request), page_of(request)
            if not done:
                return went(f"{site.address}/form")
            if len(done) == 1:
                steps = [
                    step("type", ref_of(page, "textbox", "Name"), "Ada"),
                    step("click", ref_of(page, "checkbox", "It is a gift")),
                    step("type", ref_of(page, "textbox", "Remarks"), "Order for Ada"),
                    step("click", ref_of(page, "button", "Send order")),
                    step("press", text="Tab"),
                ]
                return decide(calls=[call("browser_act", steps=steps, site=site.host)])
            return decide(calls=[call("done", answer=done[1])])

        model = ScriptedModel(reply)
        async with Workspace(tmp_path, models={"scripted": model}, settings=settings_for(site.host)) as ws:
            task = f"Order for Ada at {site.address}/form, as a gift."
            result = await ws.run(task, environments=["browser"], on_ask="deny")
            assert "4. click" in result.answer and "not done: 5. press" in result.answer, result
            assert [(one["name"], one["gift"]) for one in site.forms] == [("Ada", "yes")]
            names = [one.name for one in model.requests[0].tools]
            assert [one for one in names if one.startswith("browser_")] == ["browser_act", "browser_look"]
            assert (await ws.replay(result.run_id)).answer == result.answer_text


async def test_steps_stop_at_the_first_that_fails(tmp_path: Path) -> None:
    async with at_work(tmp_path) as hand:
        await hand.open("form")
        name, send = await hand.ref("Name"), await hand.ref("Send order")
        steps = [step("type", name, "Ada"), step("select", name, "Grace"), step("click", send)]
        said = await hand.did("act", steps=steps, site=hand.site.host)
        assert not said.ok and hand.said.startswith(f"1. type {name}: {name} is filled in"), hand.said
        assert (
            f"2. select {name} failed: {name} is no list" in hand.said and f"; not done: 3. click {send}" in hand.said
        )
        assert not hand.site.forms


@pytest.mark.parametrize(
    ("steps", "site", "sentence"),
    [
        ([step("go", text="http://x.org"), step("scroll", text="sideways")], "", "2. scroll: direction"),
        ([], "", "steps"),
    ],
)
async def test_what_cannot_be_is_refused_before_any_step(
    tmp_path: Path, steps: list[Any], site: str, sentence: str
) -> None:
    async with at_work(tmp_path) as hand:
        assert not (await hand.did("act", steps=steps, site=site)).ok
        assert sentence in hand.said and not hand.site.requests


async def test_a_dialog_ends_the_steps_and_is_answered_by_one(tmp_path: Path) -> None:
    async with at_work(tmp_path) as hand:
        await hand.open("dialogs")
        ref = await hand.ref("Confirm")
        said = await hand.do("act", steps=[step("click", ref), step("press", text="Tab")])
        assert "a dialog is open" in said and "not done: 2. press" in said
        assert "the confirm was accepted" in await hand.do("act", steps=[step("accept")])


async def test_what_the_state_does_not_show_is_looked_at(tmp_path: Path) -> None:
    async with at_work(tmp_path) as hand:
        await hand.open("form")
        assert "Order oysters" in await hand.do("look")
        assert 'button "Send order"' in await hand.do("look", at="elements", part="send order")
        assert (await hand.did("look", at="picture")).artifacts


async def test_one_step_is_asked_about_and_the_others_are_done_once(tmp_path: Path) -> None:
    """The word was given by nobody: the question names the single action and the sites that were seen.

    While the run waits the page is closed; opened anew it is another one, so the steps stop behind the answer.
    """
    word = "the word that nobody gave"
    async with browser_site() as site, browser_site() as other:

        def reply(request: ModelRequest) -> Any:
            done, page = results_of(request), page_of(request)
            if len(done) < 2:
                return went(f"{(other, site)[len(done)].address}/form")
            if len(done) == 2:
                steps = [
                    step("click", ref_of(page, "checkbox", "It is a gift")),
                    step("type", ref_of(page, "textbox", "Name"), word),
                    step("click", ref_of(page, "button", "Send order")),
                ]
                return decide(calls=[call("browser_act", steps=steps, site=site.host)])
            if len(done) == 3:
                send = step("click", ref_of(page, "button", "Send order"))
                return decide(calls=[call("browser_act", steps=[send])])
            return decide(calls=[call("done", answer=done[2])])

        settings = settings_for(site.host).model_copy(update={"on_ask": "wait"})
        private = {"private": (site.host, other.host)}
        settings = settings.model_copy(
            update={name: getattr(settings, name).model_copy(update=private) for name in ("web", "browser")}
        )
        async with Workspace(tmp_path, models={"scripted": ScriptedModel(reply)}, settings=settings) as ws:
            task = f"Read {other.address}/form, then fill in {site.address}/form."
            result = await ws.run(task, environments=["browser"])
            assert result.status is RunStatus.WAITING, result
            (question,) = result.questions
            assert question.details["arguments"]["action"] == "input_text"  # type: ignore[index,call-overload]
            assert other.host in str(question.details["origins"]), question.details
            assert not site.forms
            await ws.approve(result.run_id)
            result = await ws.resume(result.run_id)
            assert result.status is RunStatus.COMPLETED and "not done: 3. click" in result.answer, result
            assert [one["name"] for one in site.forms] == [word]
            records = Ledger.of(await ws.log.events(result.run_id)).records.values()
            actions = [one.effect["arguments"].get("action") for one in records if one.effect["kind"] == ACTION]
            assert [actions.count(name) for name in ("input_text", "click", "go_to_url")] == [1, 2, 2]


@pytest.mark.parametrize("others", [False, True], ids=["that site alone", "another source too"])
async def test_steps_are_asked_about_as_single_actions_are(tmp_path: Path, others: bool) -> None:
    """Words of its own, into the site that the user named: free from nothing but that site; not if a file was given."""
    said: list[str] = []
    async with browser_site() as site:

        def reply(request: ModelRequest) -> Any:
            done = results_of(request)
            if not done:
                return went(f"{site.address}/form")
            if len(done) == 1:
                steps = [step("type", ref_of(page_of(request), "textbox", "Name"), "whoever eats them")]
                return decide(calls=[call("browser_act", steps=steps, site=site.host)], memory="I fill it in")
            said.append(done[1])
            return decide(calls=[call("done", answer="done")])

        (tmp_path / "salaries.csv").write_text("Ann,5000\n")
        model = {"scripted": ScriptedModel(reply)}
        async with Workspace(tmp_path / "ws", models=model, settings=settings_for(site.host)) as ws:
            result = await ws.run(
                f"Fill in {site.address}/form as you like",
                files=[tmp_path / "salaries.csv"] if others else [],
                environments=["browser"],
                on_ask="deny",
            )
        assert result.answer == "done", result.error
    assert ("nobody can be asked" in said[0]) is others, said
