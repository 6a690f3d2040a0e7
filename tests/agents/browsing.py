"""What tests of the browser use agent share: workspaces for a website of this machine, models that look at the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import BrowserSettings, Settings, WebSettings
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.site.browser import PASSWORD, USER

Script = Callable[[ModelRequest], Any]


def page_of(request: ModelRequest) -> str:
    """The page as the agent sees it in this step."""
    return render_message(request.messages[-1])


def task_of(request: ModelRequest) -> str:
    """The task that the asked agent was given."""
    found = re.search(r"<task>\n(.*?)\n</task>", render_message(request.messages[1]), re.DOTALL)
    assert found is not None
    return found[1]


def results_of(request: ModelRequest) -> list[str]:
    """What the calls so far gave, in order."""
    return [message.text for message in request.messages if message.role == "tool"]


def ref_of(page: str, role: str, name: str) -> str:
    """The reference of an element, "" where the page has none."""
    found = re.search(rf'\[(\w+)\] {role} "{re.escape(name)}"', page)
    return found[1] if found else ""


def host_of(text: str) -> str:
    """The first host with a port that a text names."""
    found = re.search(r"127\.0\.0\.1:\d+", text)
    assert found is not None, text
    return found[0]


def team(planner: Script, browser: Script, **others: Script) -> ScriptedModel:
    """One model for all roles, by what their prompts say of them."""

    def reply(request: ModelRequest) -> Any:
        said = request.messages[0].text
        if "You lead a team" in said:
            return planner(request)
        if "You work web pages" in said:
            return browser(request)
        if "You analyse files" in said:
            return others.get("analyzer", agrees)(request)
        if "reader" in others and not request.tools:
            return others["reader"](request)
        return say("KEEP") if not request.tools else decide(calls=[call("done", answer="nothing", status="blocked")])

    return ScriptedModel(reply)


def agrees(request: ModelRequest) -> ModelResponse:
    """An analyzer that is asked only to verify what the browser agent found, and finds it right."""
    assert "Verify a claim" in request.messages[1].text
    return decide(
        calls=[call("done", answer="It is right.", output={"reason": "It stands there.", "verdict": "confirmed"})]
    )


def opened(
    folder: Path, model: ScriptedModel, *hosts: str, environ: dict[str, str] | None = None, **browser: Any
) -> Workspace[Any]:
    """A workspace whose pages may be those of some hosts of this machine."""
    settings = Settings(model="scripted", web=WebSettings(private=hosts), browser=BrowserSettings(**browser))
    return Workspace(folder / "ws", models={"scripted": model}, settings=settings, environ=environ)


def signing_in(request: ModelRequest, user: str, password: str) -> ModelResponse:
    """Fill in the form that is seen and send it, in one decision."""
    page = page_of(request)
    site, field = host_of(page), ref_of(page, "textbox", "Password")
    secret = re.search(r"Secrets for this site, by name with fill_secret: (\w+)", page)
    return decide(
        calls=[
            call("browser_input_text", ref=ref_of(page, "textbox", "User"), text=user, site=site),
            call("browser_fill_secret", ref=field, name=secret[1], site=site)
            if secret
            else call("browser_input_text", ref=field, text=password, site=site),
            call("browser_click", ref=ref_of(page, "button", "Sign in")),
        ],
        next_goal="be signed in",
    )


def clerk(request: ModelRequest) -> Any:
    """Opens the address of its task, signs in where it is asked to, downloads the statement where the task says so."""
    page, task, before = page_of(request), task_of(request), results_of(request)
    if "Welcome, ada" in page:
        if "download" not in task:
            return decide(calls=[call("done", answer="1,204 shells")])
        if not any("statement.csv" in one for one in before):
            return decide(calls=[call("browser_click", ref=ref_of(page, "link", "Statement"))])
        saved = next(word for one in before for word in one.split() if word.endswith("statement.csv"))
        return decide(calls=[call("done", answer=f"It is saved as {saved}.")])
    if ref_of(page, "textbox", "Password"):
        if "password" not in task and "fill_secret" not in page:
            return decide(calls=[call("done", answer="It asks for a password.", status="blocked")])
        return signing_in(request, USER, PASSWORD)
    address = next(word.strip(".,") for word in task.split() if word.startswith("http"))
    return decide(calls=[call("browser_go_to_url", url=address)])
