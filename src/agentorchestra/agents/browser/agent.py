"""The browser use agent: works pages of the web by hand, in a tab of its own (000, app. D.5).

Prepare, then in each step generate actions, execute, evaluate, record, next goal, until it is done: the ordinary loop
over the environment `browser`. Besides the answer it leaves a record of what was done: the steps as a moving picture,
the conversation, a report with its sources; and it adds its task and result to the report of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.browser.history import best_result, page_check, with_sources
from agentorchestra.agents.browser.record import begin_record, keep_record
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.reporting.pieces import add_to_report, without_report
from agentorchestra.agents.state import call_own
from agentorchestra.agents.types import Kit
from agentorchestra.agents.viewed_pages import looks
from agentorchestra.core.content import Source, TextBlock, Trust, lowest
from agentorchestra.core.settings import BrowserSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.environments.report import REPORT
from agentorchestra.runtime.context import BranchContext

NAME = "browser_use"
BROWSER = "browser"

TITLE_CHARS = 120  # of the task, as the title of what is added to the report


@dataclass(frozen=True)
class BrowserDriver:
    """Works pages until the task is done (000, app. D.5)."""

    rounds: int = 1  # of max_steps each (000, sec. 5; 001, sec. 4.4: 5 reasoning steps of 50 interactions)

    @property
    def content_hash(self) -> str:
        """Return what may change how it works; "" for what was so before there were rounds."""
        return "" if self == BrowserDriver() else f"rounds={self.rounds}"

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Take the steps, then the best result there is, and leave the record of it all."""
        if _recording(kit):
            begin_record(ctx)
        result = await self._round(spec, ctx, kit)
        steps = result.steps
        for _ in range(self.rounds - 1):
            if result.status is not RunStatus.PARTIAL or result.steps < spec.max_steps:
                break  # its work was over before its steps were
            result = await self._round(_going_on(spec, result, ctx), ctx, kit)
            steps += result.steps
        result = result.model_copy(update={"steps": steps})
        result = with_sources(result, looks(ctx))
        if result.answer:
            title = " ".join(spec.instruction.split())[:TITLE_CHARS]
            await add_to_report(ctx, result.answer, title=title, citations=result.sources)
        return await with_record(result, spec, ctx)

    async def _round(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        check = page_check(kit.prompts.get("verification"))
        result = await run_agent(without_report(spec), ctx, kit, prompt=NAME, observe=(check,), checked=True)
        return best_result(result, ctx, BROWSER)


def _going_on(spec: AgentSpec, result: AgentResult, ctx: BranchContext[Any]) -> AgentSpec:
    """Return the same task with what was come to; the pages are still open."""
    text = "\n\n".join(part for part in (result.answer, result.report) if part)
    if not text:
        return spec
    block = TextBlock(text=text, source=Source(kind="agent", ref=NAME), trust=lowest(Trust.AGENT, ctx.seen_trust))
    return spec.model_copy(update={"context": (*spec.context, block)})


async def with_record(result: AgentResult, spec: AgentSpec, ctx: BranchContext[Any]) -> AgentResult:
    """Return the result with the files of its record named in its report. It is asked for whatever the settings say."""
    arguments: dict[str, JsonValue] = {"task": spec.instruction, "result": result.model_dump(mode="json")}
    outcome = await call_own(ctx, keep_record, arguments)
    note = outcome.value if outcome.ok and isinstance(outcome.value, str) else ""
    return result.model_copy(update={"report": "\n\n".join(part for part in (result.report, note) if part)})


def _recording(kit: Kit) -> bool:
    make = kit.environments.get(BROWSER)
    return make is not None and bool(getattr(getattr(make(), "settings", None), "record", False))


def browser_use(limits: BrowserSettings | None = None) -> Agent:
    """Return the agent, with the limits of the settings."""
    return Agent(
        name=NAME,
        description=(
            "Works pages of the web by hand in a real browser: opens an address, clicks, fills in forms, logs in, "
            "scrolls, downloads, and reads what a page shows. For precise interaction with known pages, not for a "
            "broad search. Say the address and what is to be done or found there. It gives the answer with the pages "
            "it stands on, and the paths of what it downloaded."
        ),
        tools=("read_artifact",),
        prompt=NAME,
        role="browser",
        max_steps=50,
        environments=(BROWSER, REPORT),
        on_request=True,
        drive=BrowserDriver((limits or BrowserSettings()).rounds),
    )
