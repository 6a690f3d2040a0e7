"""Several actions of one decision, and an action that is approved in another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.agents.browsing import page_of, ref_of, results_of
from tests.site.browser import browser_site
from tests.support.browsers import settings_for

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide

pytestmark = [pytest.mark.long, pytest.mark.real]


async def test_what_stands_behind_a_failed_action_is_not_done(tmp_path: Path) -> None:
    """The second of three actions fails: the third, which would send the form, is not started."""
    async with browser_site() as site:

        def reply(request: ModelRequest) -> Any:
            done = results_of(request)
            if not done:
                return decide(calls=[call("browser_go_to_url", url=f"{site.address}/form")])
            page = page_of(request)
            if len(done) == 1:
                name, send = ref_of(page, "textbox", "Name"), ref_of(page, "button", "Send order")
                fill = call("browser_input_text", ref=name, text="Ada", site=site.host)
                return decide(calls=[fill, call("browser_click", ref="e999"), call("browser_click", ref=send)])
            return decide(calls=[call("done", answer="\n".join(done[1:]))])

        model = {"scripted": ScriptedModel(reply)}
        async with Workspace(tmp_path, models=model, settings=settings_for(site.host)) as ws:
            task = f"Send the form at {site.address}/form for Ada."
            result = await ws.run(task, environments=["browser"], on_ask="deny")
            assert "is filled in" in result.answer and "no element" in result.answer, result
            assert "not done, because click before it in the same decision failed" in result.answer
            assert [one.path for one in site.requests if one.method == "POST"] == []
            assert (await ws.replay(result.run_id)).answer == result.answer_text


async def test_an_approved_text_is_typed_after_the_process_ended(tmp_path: Path) -> None:
    """The question is answered when the browser is gone: the field is found again by its role and name."""
    secret = "the word that nobody gave"
    async with browser_site() as site, browser_site() as other:

        def reply(request: ModelRequest) -> Any:
            done = results_of(request)
            if not done:
                return decide(calls=[call("browser_go_to_url", url=f"{other.address}/form")])
            if len(done) == 1:
                return decide(calls=[call("browser_go_to_url", url=f"{site.address}/form")])
            page = page_of(request)
            assert f"\nsite: {site.host}\n" in page
            if len(done) == 2:
                ref = ref_of(page, "textbox", "Name")
                return decide(calls=[call("browser_input_text", ref=ref, text=secret, site=site.host)])
            return decide(calls=[call("done", answer=f"{done[2]} {secret in page}")])

        def opened() -> Workspace[Any]:
            settings = settings_for(site.host).model_copy(update={"on_ask": "wait"})
            both = settings.model_copy(
                update={
                    "web": settings.web.model_copy(update={"private": (site.host, other.host)}),
                    "browser": settings.browser.model_copy(update={"private": (site.host, other.host)}),
                }
            )
            return Workspace(tmp_path, models={"scripted": ScriptedModel(reply)}, settings=both)

        async with opened() as ws:
            task = f"Read {other.address}/form, then fill in {site.address}/form."
            result = await ws.run(task, environments=["browser"])
            assert result.status is RunStatus.WAITING, result
            assert str(result.questions[0].details["component"]).startswith("browser@")
        async with opened() as ws:
            await ws.approve(result.run_id)
            result = await ws.resume(result.run_id)
            assert result.status is RunStatus.COMPLETED and result.answer.endswith("True"), result
