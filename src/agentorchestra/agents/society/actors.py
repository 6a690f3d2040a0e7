"""The agents of a society (003, table 3), each at work from mention to mention for as long as the run goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from agentorchestra.agents.agent import GIVEN, Agent, agent_effect
from agentorchestra.agents.driver import build_agent
from agentorchestra.agents.outputs import ended_on
from agentorchestra.agents.society.toolkit import Send, heard, mail_blocks, message
from agentorchestra.agents.types import Kit
from agentorchestra.core.effects import EffectKind, Provenance
from agentorchestra.core.mail import MOST_CHARS, Mail
from agentorchestra.core.messages import Message
from agentorchestra.core.protocols import instance_of
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import State, environment_state, linear
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.replies import decision_fields
from agentorchestra.tools.done import wait_tool

SYSTEMS = ("coral", "owl")
WORKER = "worker"
PLANNER_PROMPT, WORKER_PROMPT = "society_planner", "society_worker"
ORDINARY = ("react", "worker")
"""Prompts that speak of `done`. Who has one of them, has none of its own: in a society it speaks as a worker does."""

OF_MEMBERS = (*ORDINARY, PLANNER_PROMPT, WORKER_PROMPT)
"""Prompts of agents that answer others: who has one of them leads with the orchestrator's."""

CUT = "\n(The rest is cut.)"


@dataclass(frozen=True)
class _Said:
    answer: str  # what the agent ended its turn with, by a call or in plain words
    reply: str = ""  # the same, if by a call: it goes to whoever asked, whatever was written to them before
    beside: str = ""  # what it said last beside its calls
    sources: tuple[Provenance, ...] = ()  # what it stems from


Turn = Callable[[list[Mail]], Awaitable[_Said]]  # one turn of an agent, from the messages that woke it


async def act(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Work from mention to mention; the end of the run ends it."""
    agent, society = kit.agents[spec.system], ctx.run.mail.society
    if ctx.actor not in society.members or society.forged(ctx.actor, ctx.home):
        # Nobody would ever write to it.
        why = f"{ctx.actor} works only where others write to it; run the system `coral`, which has it"
        return AgentResult(status=RunStatus.BLOCKED, report=why)
    steps = agent.drive in (None, act)
    turn = await _conversation(agent, spec, ctx, kit) if steps else _tasks(agent, spec, ctx)
    owed: dict[str, Mail] = {}  # the last message of each who waits for an answer
    while True:
        mails = (await heard(ctx)).mails
        if not mails:
            continue
        owed |= {one.sender: one for one in mails}
        before = ctx.last_n
        said = await turn(mails)
        sent = _sent(ctx, before)
        # Who has asked others meanwhile answers when these have.
        words = said.answer or ("" if sent else said.beside)
        for sender, mail in owed.items():
            # Who leads is told even that there is nothing; others could tell each other so for ever.
            missing = sender not in sent and (words or (not sent and sender == society.leader))
            if missing or (said.reply and said.reply not in sent.get(sender, ())):
                text = _cut(words) or "I have come to no result."
                await ctx.perform(message(mail.thread, text, [sender], ctx, said.sources))
        owed = {} if words or not sent else {name: mail for name, mail in owed.items() if name not in sent}


async def _conversation(agent: Agent, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> Turn:
    """Return the turn of an agent that decides step by step: one history over all messages."""
    prompt = WORKER_PROMPT if agent.prompt in ORDINARY else agent.prompt
    society = ctx.run.mail.society
    others = [{"name": name, "description": said} for name, said in society.members.items() if name != agent.name]
    values = {"members": others if society.topology == "mesh" else []}
    state, parts = await build_agent(
        spec, ctx, kit, prompt=prompt, offered=[Send()], own=(wait_tool(),), values=values, receives=False
    )
    shown = {name: kit.environments[name]() for name in parts.environments}
    perceive = [environment_state(f"{name}@{one.version}", instance_of(one)) for name, one in shown.items()]
    parts = replace(parts, perceive=(*parts.perceive, *perceive))

    async def turn(mails: list[Mail]) -> _Said:
        nonlocal state
        told = Message(role="user", content=tuple(mail_blocks(mails)))
        state = await linear(_woken(state, told), ctx, parts)
        answer = state.result.answer if state.result is not None else ""
        reply = "" if state.words else answer  # plain words may only tell of it
        return _Said(answer, reply, _beside(state, told), state.sources)

    return turn


def _tasks(agent: Agent, spec: AgentSpec, ctx: BranchContext[Any]) -> Turn:
    """Return the turn of an agent whose workflow is code: what woke it is its task, and it keeps nothing of it."""

    async def turn(mails: list[Mail]) -> _Said:
        told = "\n\n".join(one.content for one in mails)
        sources = tuple(Provenance(kind="agent", ref=one.sender, trust=one.trust) for one in mails)
        task = agent.spec(told, tools=spec.tools, on_demand=True)
        outcome = await ctx.perform(agent_effect(task, ctx, provenance=sources))
        if not outcome.ok:
            return _Said(outcome.error or "", sources=sources)
        result = AgentResult.model_validate(outcome.value)
        said = "\n\n".join(dict.fromkeys(one for one in (result.answer, result.report) if one))
        return _Said(said, said, sources=(Provenance(kind="agent", ref=agent.name, trust=outcome.trust),))

    return turn


def _woken(state: State, told: Message) -> State:
    """Return the state of an agent that begins a turn: its steps count from the message that it answers."""
    fresh = State(messages=(*state.messages, told), max_steps=state.max_steps)
    kept = {"head": state.head, "sources": state.sources, "opened": state.opened}
    return fresh.model_copy(update=kept | {"compactions": state.compactions, "ceiling": state.ceiling})


def _sent(ctx: BranchContext[Any], after: int) -> dict[str, list[str]]:
    """Return to whom the agent has written since an effect of its branch, and what."""
    found: dict[str, list[str]] = {}
    for _, record in ended_on(ctx, [EffectKind.SEND_MESSAGE], after=after):
        if record.outcome is not None and record.outcome.ok:
            for to in record.effect["arguments"]["to"]:
                found.setdefault(to, []).append(record.effect["arguments"]["content"])
    return found


def _beside(state: State, told: Message) -> str:
    """Return what an agent said last beside its calls since it was told something."""
    turn = takewhile(lambda one: one is not told, reversed(state.messages))
    said = [one.text.strip() for one in turn if one.role == "assistant" and not decision_fields(one.text)]
    return next((text for text in (*said, state.memory) if text), "")


def _cut(words: str) -> str:
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
        prompt=PLANNER_PROMPT if planner else WORKER_PROMPT,
        role="main" if planner else WORKER,
        drive=act,
        within=SYSTEMS,
    )


WORKERS = ("web_agent", "document_agent", "coding_agent")
ROLES = ("planner", *WORKERS)  # the agents beside the orchestrator (003, table 3)
