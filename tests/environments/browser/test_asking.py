"""Actions that ask: a model what of a page serves a goal, a person for a login. In runs, with the shipped policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.agents.browsing import page_of, ref_of, results_of
from tests.site.browser import PASSWORD, USER, browser_site
from tests.support.browsers import settings_for

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide, say

pytestmark = [pytest.mark.long, pytest.mark.real]


async def test_what_of_a_page_serves_a_goal(tmp_path: Path) -> None:
    """The model that reads answers from the page alone; another goal finds nothing."""
    async with browser_site() as site:
        goals = ["the power of the wheel, in kilowatts", "the price of oysters"]

        def reply(request: ModelRequest) -> Any:
            said = "\n".join(message.text for message in request.messages)
            if "You read a page of the web for an agent" in said:
                goal = "kilowatts" if goals[0] in said else "price"
                lines = [line for line in said.split("\n") if goal in line and "goal" not in line and line not in goals]
                return say("\n".join(lines) or "NOTHING")
            done = results_of(request)
            if not done:
                return decide(calls=[call("browser_go_to_url", url=f"{site.address}/article")])
            if len(done) <= len(goals):
                return decide(calls=[call("browser_extract_content", goal=goals[len(done) - 1])])
            return decide(calls=[call("done", answer="\n---\n".join(done[1:]))])

        async with Workspace(
            tmp_path, models={"scripted": ScriptedModel(reply)}, settings=settings_for(site.host)
        ) as ws:
            result = await ws.run(f"How strong is the wheel? See {site.address}/article", environments=["browser"])
            assert result.status is RunStatus.COMPLETED, result
            wheel, price = str(result.answer).split("\n---\n")
            assert "7.2 kilowatts on average" in wheel and "1782" not in wheel
            assert "nothing on the page serves this goal" in price
            asked = len(site.requests)
            assert (await ws.replay(result.run_id)).answer == result.answer_text
            assert len(site.requests) == asked


async def test_a_person_is_asked_for_a_login(tmp_path: Path) -> None:
    """The page asks for a password, the agent asks a person, who sees which page it is; then it goes on."""
    questions: list[Any] = []

    async def asker(question: Any) -> str:
        questions.append(question)
        return PASSWORD

    async with browser_site() as site:

        def reply(request: ModelRequest) -> Any:
            page, done = page_of(request), results_of(request)
            if not done:
                return decide(calls=[call("browser_go_to_url", url=f"{site.address}/account")])
            if "1,204 shells" in page:
                return decide(calls=[call("done", answer="1,204 shells")])
            assert "asks for a password" in page
            if len(done) == 1:
                return decide(calls=[call("browser_ask_human", question=f"What is the password of {USER}?")])
            fields = {"User": USER, "Password": done[1].strip().split()[-1]}
            typed = [
                call("browser_input_text", ref=ref_of(page, "textbox", name), text=text, site=site.host)
                for name, text in fields.items()
            ]
            return decide(calls=[*typed, call("browser_click", ref=ref_of(page, "button", "Sign in"))])

        model = {"scripted": ScriptedModel(reply)}
        async with Workspace(tmp_path, models=model, settings=settings_for(site.host), asker=asker) as ws:
            task = f"What is the balance of {USER} at {site.address}/account?"
            result = await ws.run(task, environments=["browser"])
            assert result.answer == "1,204 shells", result
    assert len(questions) == 1, [str(one) for one in questions]
    assert f"{site.host}/login" in str(questions[0]) and "browser/" in str(questions[0])


async def test_a_password_is_filled_in_by_its_name_and_stands_nowhere(tmp_path: Path) -> None:
    """Only at the site that the settings name; not in the log, the prompts, the record."""
    shown: list[str] = []
    async with browser_site() as site:

        def reply(request: ModelRequest) -> Any:
            shown.append("\n".join(message.text for message in request.messages))
            page, done = page_of(request), results_of(request)
            if not done:
                return decide(calls=[call("browser_go_to_url", url=f"{site.address}/account")])
            if "1,204 shells" in page:
                return decide(calls=[call("done", answer="1,204 shells")])
            field = ref_of(page, "textbox", "Password")
            if len(done) == 1:
                assert "by name with fill_secret: SHELL_USER, SHELL_PASSWORD." in page
                names = {"User": "SHELL_USER", "Password": "SHELL_PASSWORD"}
                filled = [
                    call("browser_fill_secret", ref=ref_of(page, "textbox", label), name=name, site=site.host)
                    for label, name in names.items()
                ]
                return decide(calls=[*filled, call("browser_fill_secret", ref=field, name="HOME", site=site.host)])
            return decide(calls=[call("browser_click", ref=ref_of(page, "button", "Sign in"))])

        chosen = settings_for(site.host)
        logins = {site.host: ("SHELL_USER", "SHELL_PASSWORD")}
        chosen = chosen.model_copy(update={"browser": chosen.browser.model_copy(update={"logins": logins})})
        given = {"SHELL_USER": USER, "SHELL_PASSWORD": PASSWORD, "HOME": "/nowhere"}
        model = {"scripted": ScriptedModel(reply)}
        async with Workspace(tmp_path, models=model, settings=chosen, environ=given) as ws:
            result = await ws.run(f"What is my balance at {site.address}/account?", environments=["browser"])
            assert result.answer == "1,204 shells", result
            kept = "\n".join([event.model_dump_json() for event in await ws.log.events(result.run_id)])
    said = "\n".join(shown)
    assert "'HOME' is no secret for" in said and "the secrets of" in said
    assert PASSWORD not in said and PASSWORD not in kept


async def test_a_person_is_asked_also_while_a_dialog_is_open(tmp_path: Path) -> None:
    """Of a page that waits for an answer no picture can be taken."""
    asked: list[str] = []

    async def asker(question: Any) -> str:
        asked.append(str(question))
        return "Sell it."

    async with browser_site() as site:

        def reply(request: ModelRequest) -> Any:
            page, done = page_of(request), results_of(request)
            if not done:
                return decide(calls=[call("browser_go_to_url", url=f"{site.address}/dialogs")])
            if len(done) == 1:
                return decide(calls=[call("browser_click", ref=ref_of(page, "button", "Confirm"))])
            if len(done) == 2:
                assert "Sell the boat?" in page
                return decide(calls=[call("browser_ask_human", question="May I sell the boat?")])
            if len(done) == 3:
                return decide(calls=[call("browser_answer_dialog", accept="Sell it" in done[2])])
            return decide(calls=[call("done", answer="sold")])

        model = {"scripted": ScriptedModel(reply)}
        async with Workspace(tmp_path, models=model, settings=settings_for(site.host), asker=asker) as ws:
            result = await ws.run(f"Sell the boat at {site.address}/dialogs", environments=["browser"])
        assert result.answer == "sold", result.error
        assert (await site.heard("confirmed"))["yes"] is True
    assert len(asked) == 1
