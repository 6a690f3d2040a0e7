"""The agents of a society (003, table 3), each at work from mention to mention for as long as the run goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from agentorchestra.agents.agent import USER_TOOLS, Agent, agent_effect
from agentorchestra.agents.driver import build_agent
from agentorchestra.agents.outputs import ended_on
from agentorchestra.agents.society.toolkit import Send, mail_blocks, message, next_mails
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
    if ctx.actor not in society.members or society.forgery(ctx.actor, ctx.home):
        # Nobody would ever write to it.
        reason = f"{ctx.actor} works only where others write to it; run the system `coral`, which has it"
        return AgentResult(status=RunStatus.BLOCKED, report=reason)
    steps = agent.drive in (None, act)
    turn = await _conversation(agent, spec, ctx, kit) if steps else _tasks(agent, spec, ctx)
    open_mails: dict[str, Mail] = {}  # the last message of each who waits for an answer
    while True:
        mails = (await next_mails(ctx)).mails
        if not mails:
            continue
        open_mails |= {mail.sender: mail for mail in mails}
        before = ctx.last_n
        reply = await turn(mails)
        texts = _sent_texts(ctx, before)
        # Who has asked others meanwhile answers when these have.
        words = reply.answer or ("" if texts else reply.beside)
        for sender, mail in open_mails.items():
            # Who leads is told even that there is nothing; others could tell each other so for ever.
            missing = sender not in texts and (words or (not texts and sender == society.leader))
            if missing or (reply.reply and reply.reply not in texts.get(sender, ())):
                text = _cut(words) or "I have come to no result."
                await ctx.perform(message(mail.thread, text, [sender], ctx, reply.sources))
        open_mails = (
            {} if words or not texts else {name: mail for name, mail in open_mails.items() if name not in texts}
        )


async def _conversation(agent: Agent, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> Turn:
    """Return the turn of an agent that decides step by step: one history over all messages."""
    prompt = WORKER_PROMPT if agent.prompt in ORDINARY else agent.prompt
    society = ctx.run.mail.society
    members = [{"name": name, "description": text} for name, text in society.members.items() if name != agent.name]
    values = {"members": members if society.topology == "mesh" else []}
    state, parts = await build_agent(
        spec, ctx, kit, prompt=prompt, offered=[Send()], own=(wait_tool(),), values=values, receives=False
    )
    environments = {name: kit.environments[name]() for name in parts.environments}
    perceive = [environment_state(f"{name}@{env.version}", instance_of(env)) for name, env in environments.items()]
    parts = replace(parts, perceive=(*parts.perceive, *perceive))

    async def turn(mails: list[Mail]) -> _Said:
        nonlocal state
        order = Message(role="user", content=tuple(mail_blocks(mails)))
        state = await linear(_woken(state, order), ctx, parts)
        answer = state.result.answer if state.result is not None else ""
        reply = "" if state.words else answer  # plain words may only tell of it
        return _Said(answer, reply, _beside(state, order), state.sources)

    return turn


def _tasks(agent: Agent, spec: AgentSpec, ctx: BranchContext[Any]) -> Turn:
    """Return the turn of an agent whose workflow is code: what woke it is its task, and it keeps nothing of it."""

    async def turn(mails: list[Mail]) -> _Said:
        order = "\n\n".join(mail.content for mail in mails)
        sources = tuple(Provenance(kind="agent", ref=mail.sender, trust=mail.trust) for mail in mails)
        task = agent.spec(order, tools=spec.tools, on_demand=True)
        outcome = await ctx.perform(agent_effect(task, ctx, provenance=sources))
        if not outcome.ok:
            return _Said(outcome.error or "", sources=sources)
        result = AgentResult.model_validate(outcome.value)
        text = "\n\n".join(dict.fromkeys(part for part in (result.answer, result.report) if part))
        return _Said(text, text, sources=(Provenance(kind="agent", ref=agent.name, trust=outcome.trust),))

    return turn


def _woken(state: State, order: Message) -> State:
    """Return the state of an agent that begins a turn: its steps count from the message that it answers."""
    fresh = State(messages=(*state.messages, order), max_steps=state.max_steps)
    history = {"head": state.head, "sources": state.sources, "open_tools": state.open_tools}
    return fresh.model_copy(update=history | {"compactions": state.compactions, "ceiling": state.ceiling})


def _sent_texts(ctx: BranchContext[Any], after: int) -> dict[str, list[str]]:
    """Return to whom the agent has written since an effect of its branch, and what."""
    texts: dict[str, list[str]] = {}
    for _, record in ended_on(ctx, [EffectKind.SEND_MESSAGE], after=after):
        if record.outcome is not None and record.outcome.ok:
            for to in record.effect["arguments"]["to"]:
                texts.setdefault(to, []).append(record.effect["arguments"]["content"])
    return texts


def _beside(state: State, order: Message) -> str:
    """Return what an agent said last beside its calls since it was told something."""
    turn = takewhile(lambda message: message is not order, reversed(state.messages))
    texts = [entry.text.strip() for entry in turn if entry.role == "assistant" and not decision_fields(entry.text)]
    return next((text for text in (*texts, state.memory) if text), "")


def _cut(words: str) -> str:
    return words if len(words) <= MOST_CHARS else f"{words[: MOST_CHARS - len(CUT)]}{CUT}"


def society_agents() -> tuple[Agent, ...]:
    """Return the planner and the workers of table 3, with their tools by our names."""
    web = ("search", "fetch", "archived_page", "ask_media")
    documents = ("read_file", "search_files", "analyze_file", "ask_media", "transcribe_file", "check_quotes")
    code = ("python", "bash", "read_file", "check_quotes", USER_TOOLS)
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
