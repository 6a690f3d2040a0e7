"""The browser use agent: works pages of the web by hand, in a tab of its own (000, app. D.5).

Prepare, then in each step generate actions, execute, evaluate, record, next goal, until it is done: the ordinary loop
over the environment `browser`. Besides the answer it leaves a record of what was done: the steps as a moving picture,
the conversation, a report with its sources.
"""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.browsing import PageCheck, best_result, looks, with_sources
from agentorchestra.agents.kit import Kit, run_agent
from agentorchestra.agents.record import KEEP, begin_record, keep_record
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.session import Session
from agentorchestra.tea.handlers import effect_for

NAME = "browser_use"
BROWSER = "browser"


async def browse(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """The steps, then the result by several strategies, and the record of it all."""
    if _recording(kit):
        begin_record(session)
    check = PageCheck(kit.prompts.get("verification"))
    result = await run_agent(spec, session, kit, prompt=NAME, observe=(check,))
    result = best_result(result, session, BROWSER)
    result = with_sources(result, looks(session))
    return await recorded(result, spec, session)


async def recorded(result: AgentResult, spec: AgentSpec, session: Session[Any]) -> AgentResult:
    """The result, with the files of its record named in its report; as it is where none is or could be made.

    It is asked for in any case: the settings may be others when the run is repeated.
    """
    session.own_tools = {**session.own_tools, KEEP: keep_record}
    arguments = {"task": spec.instruction, "result": result.model_dump(mode="json")}
    outcome = await session.perform(effect_for(keep_record, arguments, role=session.role))
    said = outcome.value if outcome.ok and isinstance(outcome.value, str) else ""
    report = "\n\n".join(part for part in (result.report, said) if part)
    return result.model_copy(update={"report": report})


def _recording(kit: Kit) -> bool:
    make = kit.environments.get(BROWSER)
    return make is not None and bool(getattr(getattr(make(), "settings", None), "record", False))


BROWSER_USE = Agent(
    name=NAME,
    description=(
        "Works pages of the web by hand in a real browser: opens an address, clicks, fills in forms, logs in, scrolls, "
        "downloads, and reads what a page shows. For precise interaction with known pages, not for a broad search. Say "
        "the address and what is to be done or found there. It gives the answer with the pages it stands on, and the "
        "paths of what it downloaded."
    ),
    tools=("read_artifact",),
    prompt=NAME,
    role="browser",
    max_steps=50,
    environments=(BROWSER,),
    on_request=True,
    drive=browse,
)

__all__ = ["BROWSER", "BROWSER_USE", "browse"]
