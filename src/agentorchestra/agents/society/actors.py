"""The agents of a society (003, table 3), each at work from mention to mention for as long as the run goes on."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import Any

from agentorchestra.agents.agent import GIVEN, Agent
from agentorchestra.agents.driver import build_agent
from agentorchestra.agents.outputs import ended_on
from agentorchestra.agents.society.toolkit import Send, heard, mail_blocks, message
from agentorchestra.agents.types import Kit
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.mail import MOST_CHARS
from agentorchestra.core.messages import Message
from agentorchestra.core.protocols import instance_of
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import State, environment_state, linear
from agentorchestra.runtime.session import Session
from agentorchestra.tea.calling.repair import decision_fields
from agentorchestra.tools.done import wait_tool

SYSTEMS = ("coral", "owl")
WORKER = "worker"
CUT = "\n(The rest is cut.)"


async def act(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Work from mention to mention; the end of the run ends it."""
    society = session.run.mail.society
    if session.actor not in society.members or society.forged(session.actor, session.home):
        # Nobody would ever write to it.
        said = f"{session.actor} works only where others write to it; run the system `coral`, which has it"
        return AgentResult(status=RunStatus.BLOCKED, report=said)
    prompt = kit.agents[spec.system].prompt
    state, parts = await build_agent(
        spec, session, kit, prompt=prompt, offered=[Send()], own=(wait_tool(),), receives=False
    )
    shown = {name: kit.environments[name]() for name in parts.environments}
    perceive = [environment_state(f"{name}@{one.version}", instance_of(one)) for name, one in shown.items()]
    parts = replace(parts, perceive=(*parts.perceive, *perceive))
    while True:
        mails = (await heard(session)).mails
        if not mails:
            continue
        before, told = session.last_n, Message(role="user", content=tuple(mail_blocks(mails)))
        state = await linear(_woken(state, told), session, parts)
        asked = {one.sender: one for one in mails}  # the last message of each
        sent = _sent(session, before)
        words = _last_words(state, told)
        reply = "" if state.result is None or state.words else state.result.answer  # plain words may only tell of it
        for sender, mail in asked.items():
            # Who leads is told even that there is nothing; others could tell each other so for ever.
            owed = sender not in sent and (words or sender == society.leader)
            if owed or (reply and reply not in sent.get(sender, ())):
                said = words or "I have come to no result."
                await session.perform(message(mail.thread, said, [sender], session, state.sources))


def _woken(state: State, told: Message) -> State:
    """Return the state of an agent that begins a turn: its steps count from the message that it answers."""
    fresh = State(messages=(*state.messages, told), max_steps=state.max_steps)
    kept = {"head": state.head, "sources": state.sources, "opened": state.opened}
    return fresh.model_copy(update=kept | {"compactions": state.compactions, "ceiling": state.ceiling})


def _sent(session: Session[Any], after: int) -> dict[str, list[str]]:
    """Return to whom the agent has written since an effect of its branch, and what."""
    found: dict[str, list[str]] = {}
    for _, record in ended_on(session, [EffectKind.SEND_MESSAGE], after=after):
        if record.outcome is not None and record.outcome.ok:
            for to in record.effect["arguments"]["to"]:
                found.setdefault(to, []).append(record.effect["arguments"]["content"])
    return found


def _last_words(state: State, told: Message) -> str:
    """Return what an agent said last since it was told something: its answer, or the words beside its calls."""
    found = state.result.answer if state.result is not None else ""
    turn = takewhile(lambda one: one is not told, reversed(state.messages))
    said = [found, *(one.text.strip() for one in turn if one.role == "assistant" and not decision_fields(one.text))]
    words = next((text for text in (*said, state.memory) if text), "")
    return words if len(words) <= MOST_CHARS else f"{words[: MOST_CHARS - len(CUT)]}{CUT}"


def society_agents() -> tuple[Agent, ...]:
    """Return the planner and the workers of table 3, with their tools by our names."""
    web = ("search", "fetch", "archived_page", "ask_media")
    documents = ("read_file", "search_files", "analyze_file", "ask_media", "transcribe_file", "check_quotes")
    code = ("python", "bash", "read_file", "check_quotes", GIVEN)
    return (
        _agent("planner", "Thinks: makes plans, judges results, finds what is wrong with them. It has no tools.", ()),
        _agent("web_agent", "Searches the web, reads pages, and looks at their pictures.", web),
        _agent("document_agent", "Reads the files of the task: texts, tables, pictures, recordings.", documents),
        _agent("coding_agent", "Reasons, and writes and runs programs, on the files of the task too.", code),
    )


def _agent(name: str, description: str, tools: tuple[str, ...]) -> Agent:
    planner = name == "planner"
    return Agent(
        name,
        description,
        tools=tools,
        prompt="society_planner" if planner else "society_worker",
        role="main" if planner else WORKER,
        drive=act,
        within=SYSTEMS,
    )


WORKERS = ("web_agent", "document_agent", "coding_agent")
ROLES = ("planner", *WORKERS)
"""The agents beside the orchestrator (003, table 3)."""
