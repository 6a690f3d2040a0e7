"""Memory in an agent's loop: it is told what it knows, each step is written down, and some systems speak before each
decision.

A run's memory system (`memory=`) is its top agent's; another agent has one where its definition names it. The parts of
`[parts]` that remember (`tea/memory/steps.py`) are one system with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, cast

from pydantic import JsonValue

from agentorchestra.agents.outputs import ended_on
from agentorchestra.agents.requests import model_effect, request_settings, role_of, window_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest, text_of
from agentorchestra.core.effects import Effect, EffectKind, Mode, provenance_of
from agentorchestra.core.errors import OutputError, ToolError, UnknownComponentError
from agentorchestra.core.messages import Message
from agentorchestra.core.messages import system as system_message
from agentorchestra.core.settings import PartSettings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.loop import Seen, State
from agentorchestra.models.prices import CHARS_PER_TOKEN
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.state import PRIVATE
from agentorchestra.tea.calling.structured_output import read_output
from agentorchestra.tea.memory.base import (
    LONGEST_ENTRY,
    NO_MEMORY,
    STEP,
    Entry,
    EntryKind,
    Happening,
    MemoryDescription,
    MemoryFactory,
    MemorySystem,
    Recalling,
    Scope,
    describe_memory,
)
from agentorchestra.tea.memory.handler import MOST_WRITTEN
from agentorchestra.tea.memory.steps import StepMemory
from agentorchestra.tools.todo import Plans

PURPOSE = "memory"  # of the requests that a memory system makes

ROLE = "summariser"
_RESULT_CHARS = 400
_ARGUMENT_CHARS = 200
_ANSWER_CHARS = 1_500
_RIVAL = f"{PRIVATE}memory"
_WINNER = f"{PRIVATE}memory_of"  # names the branch whose memory a branch has

_CALLS = (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.INVOKE_AGENT)


@dataclass
class SessionMemory:
    """An agent's memory through the door; see `tea.memory.base.Memory`."""

    ctx: BranchContext[Any]
    kit: Kit
    agent: str
    task: Happening
    system: MemoryDescription
    leads: bool = False  # for the run's top agent
    in_view: int = 0
    # of a rival course of the work, what it wrote so far; None where it is written down at once
    backlog: list[Entry] | None = None
    _event: Entry | None = field(default=None, init=False)

    @property
    def room(self) -> int:
        """Half of the window of the model that is asked: the rest is for instructions and the reply."""
        return int(window_of(self._model(), self.ctx, self.kit) * CHARS_PER_TOKEN / 2)

    async def read(
        self,
        query: str = "",
        *,
        kinds: Sequence[EntryKind] = (),
        scope: Scope = "agent",
        limit: int = 20,
        only: str = "",
    ) -> list[Entry]:
        """Perform ReadMemory; with `only` for the one entry of that name."""
        arguments: dict[str, JsonValue] = {"agent": self.agent, "scope": scope, "limit": limit}
        arguments |= {"kinds": list[JsonValue](kinds)} if kinds else {}
        arguments |= {"query": query[:LONGEST_ENTRY]} if query else {}
        arguments |= {"only": only} if only else {}
        outcome = await self.ctx.perform(self._effect(EffectKind.READ_MEMORY, arguments))
        value = outcome.value.get("entries") if outcome.ok and isinstance(outcome.value, dict) else None
        return [Entry.model_validate(row) for row in value] if isinstance(value, list) else []

    async def write(
        self,
        kind: EntryKind,
        text: str,
        *,
        of: Sequence[Entry | Happening],
        same: Sequence[Entry] = (),
        instead_of: Sequence[Entry] = (),
        against: Sequence[Entry] = (),
        evidence: Sequence[str] = (),
    ) -> Entry:
        """Perform WriteMemory. An event that two systems write down one after the other stands there once."""
        content = _cut(text.strip() or "(nothing)", LONGEST_ENTRY)
        if kind == "event" and self._event is not None and self._event.text == content:
            return self._event
        made_of = [material.trust for material in of] or [lowest(Trust.AGENT, self.ctx.seen_trust)]
        trust = lowest(*made_of) if kind == "event" else lowest(Trust.AGENT, *made_of)
        covers = same if kind == "insight" else [entry for entry in of if isinstance(entry, Entry) and kind != "event"]
        entry = Entry(
            id=self.ctx.id("mem_"),
            kind=kind,
            text=content,
            agent=self.agent,
            trust=trust,
            covers=tuple(cover.ref for cover in covers),
            instead_of=tuple(entry.ref for entry in instead_of),
            against=tuple(entry.ref for entry in against),
            evidence=tuple(evidence),
        )
        self._event = entry if kind == "event" else self._event
        if self.backlog is None:
            await self.record([entry])
        else:
            self.backlog.append(entry)
        return entry

    async def record(self, entries: Sequence[Entry]) -> None:
        for start in range(0, len(entries), MOST_WRITTEN):
            batch = entries[start : start + MOST_WRITTEN]
            rows: list[JsonValue] = [entry.model_dump(mode="json", exclude_defaults=True) for entry in batch]
            await self.ctx.perform(self._effect(EffectKind.WRITE_MEMORY, {"entries": rows}))

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed beside the agent's work, where a model is configured for it."""
        if not texts or not self.ctx.manifest.embedding_model:
            return []
        try:
            return await self.ctx.embed(texts)
        except ToolError:
            return []

    async def ask(
        self, prompt: str, material: Sequence[Entry | Happening], *, schema: dict[str, Any] | None = None, **values: Any
    ) -> str:
        """Ask beside the agent's work: a reply that cannot be had changes nothing about the work."""
        material_block = shown_entries(material)
        reply = await self._reply(prompt, material_block, schema, values)
        if schema is None or not reply:
            return reply
        try:
            read_output(reply, schema)
        except OutputError as exc:
            problem = TextBlock(text=f"Your last reply was of no use: {exc}", trust=Trust.SYSTEM)
            return await self._reply(prompt, (*material_block, problem), schema, values)
        return reply

    def _model(self) -> str:
        return role_of(ROLE, self.ctx).model or self.ctx.model

    async def _reply(
        self, prompt: str, content: tuple[Block, ...], schema: dict[str, Any] | None, values: dict[str, Any]
    ) -> str:
        model = self._model()
        _, settings, profile_hash = request_settings(model, role_of(ROLE, self.ctx), self.ctx, self.kit)
        if schema is not None:
            settings = settings.model_copy(update={"output_schema": schema})
        order = system_message(self.kit.prompts.get(prompt).render(**values))
        message = Message(role="user", content=content)
        provenance = provenance_of(content)
        outcome = await self.ctx.perform(
            model_effect(
                model, (order, message), settings, profile_hash, role=ROLE, purpose=PURPOSE, provenance=provenance
            )
        )
        return outcome.response.text.strip() if outcome.ok else ""

    def _effect(self, kind: EffectKind, arguments: dict[str, JsonValue]) -> Effect:
        return Effect(
            kind=kind,
            component=f"{self.system.name}@{self.system.version}",
            content_hash=self.system.content_hash,
            arguments=arguments,
            mode=Mode.PURE,
            role=self.ctx.role,
            purpose=PURPOSE,
        )


def shown_entries(entries: Sequence[Entry | Happening]) -> tuple[Block, ...]:
    """Return entries and events as blocks, in their order; neighbours of one kind and trust stand in one block."""
    blocks: list[Block] = []
    last: tuple[str, Trust] | None = None
    lines: list[str] = []

    def close() -> None:
        if last is not None:
            text = "\n".join(lines)
            blocks.append(TextBlock(text=text, source=Source(kind="memory", ref=last[0]), trust=last[1]))

    for entry in entries:
        kind = entry.kind if isinstance(entry, Entry) else "event"
        if (kind, entry.trust) != last:
            close()
            last, lines = (kind, entry.trust), []
        line = entry.text if entry.text.startswith("- ") else f"- {entry.text}"  # a summary is a list already
        if isinstance(entry, Entry) and entry.times > 1:
            line += f" (found in {entry.times} tasks)"
        if isinstance(entry, Entry) and entry.misled:
            line += f" (it misled {entry.misled}: {entry.why})"
        lines.append(line)
    close()
    return tuple(blocks)


@dataclass
class AgentMemory:
    """The parts of an agent's loop that its memory is: `perceive`, `recall`, `observe`, and what happens at its end."""

    memory: SessionMemory
    system: MemorySystem
    prompt: Any
    view: Any
    _began: bool = field(default=False, init=False)
    _step: int = field(default=0, init=False)
    _finished: int = field(default=0, init=False)
    _turns: tuple[Message, ...] = field(default=(), init=False)
    _rivals: dict[str, AgentMemory] = field(default_factory=dict, init=False)

    @property
    def recalls(self) -> bool:
        return hasattr(self.system, "recall")

    async def perceive(self, state: State, ctx: BranchContext[Any]) -> Seen | None:
        """Show what it knows already, before the first decision; it stays in the history."""
        blocks = () if self._began else await self.begin()
        return Seen(blocks=blocks, keep=True) if blocks else None

    async def begin(self) -> tuple[Block, ...]:
        self._began = True
        texts = list(await self.system.begin(self.memory))
        if not texts:
            return ()
        head = TextBlock(text=self.prompt.render(count=len(texts)), source=Source(kind="prompt"), trust=Trust.SYSTEM)
        return (head, *shown_entries(texts))

    async def recall(self, state: State, ctx: BranchContext[Any]) -> Seen | None:
        """Show what the system says before this decision; None where it says nothing, or nothing before decisions."""
        if not self.recalls:
            return None
        holder = await self._of(ctx)
        holder.memory.in_view = sum(turn in state.messages for turn in holder._turns)
        blocks: list[Block] = []
        for kind, entries in groupby(
            await cast(Recalling, holder.system).recall(holder.memory), key=lambda entry: entry.kind
        ):
            head = self.view.render(remembered=kind)
            blocks.append(TextBlock(text=head, source=Source(kind="prompt"), trust=Trust.SYSTEM))
            blocks += shown_entries([*entries])
        return Seen(blocks=tuple(blocks)) if blocks else None

    async def observe(self, state: State, ctx: BranchContext[Any]) -> State:
        """Write the step down; that of a rival where it wins, at the end."""
        if ctx is not self.memory.ctx and not self.recalls:
            return self._rival(state, ctx)
        holder = await self._of(ctx)
        if state.step != holder._step:
            await holder._observe(state, ctx)
        return state

    async def _observe(self, state: State, ctx: BranchContext[Any]) -> None:
        self._step = state.step
        event = step_of(state, self.memory.room if self.recalls else 0)
        finished = sum(step.status == "completed" for plan in Plans.of(ctx.vars).plans.values() for step in plan.steps)
        if event is not None:
            self._turns += (_turn(state)[0],)
            await self.system.step(self.memory, event._replace(closes=finished > self._finished))
        self._finished = finished

    async def _of(self, ctx: BranchContext[Any]) -> AgentMemory:
        """Return the memory as a branch has it.

        That of a rival begins as a copy of the one that it has in common with its rivals; where it wins, its memory is
        that of the work.
        """
        holder = self if ctx is self.memory.ctx else self._rivals.get(ctx.branch)
        if holder is None:
            before = await self._of(cast(BranchContext[Any], ctx.parent))
            holder = self._rivals[ctx.branch] = copy(before)
            holder.memory = replace(before.memory, ctx=ctx, backlog=[*(before.memory.backlog or ())])
            holder.system = deepcopy(before.system)
            ctx.vars[_WINNER] = ctx.branch
        elif holder is self:
            await self.record_winner(ctx)
        if (winner := self._rivals.get(str(ctx.vars.get(_WINNER)))) is not None and winner is not holder:
            holder._take(winner)
            ctx.vars[_WINNER] = ctx.branch
        return holder

    def _take(self, winner: AgentMemory) -> None:
        self.system, self._step, self._finished = winner.system, winner._step, winner._finished
        self._turns = winner._turns
        if self.memory.backlog is not None:
            self.memory.backlog = winner.memory.backlog

    @staticmethod
    def _rival(state: State, ctx: BranchContext[Any]) -> State:
        event = step_of(state)
        if event is not None:
            # In the state of its branch: the loop goes on with the winner's alone, and a resume makes it again.
            value = ctx.vars.get(_RIVAL)
            steps: list[JsonValue] = [*value] if isinstance(value, list) else []
            ctx.vars[_RIVAL] = [*steps, {"text": event.text, "trust": event.trust.value}]
        return state

    async def workflow(self, ctx: BranchContext[Any]) -> None:
        """Write down the steps of the winner of rivals; of a workflow without steps what it called, together."""
        if await self.record_winner(ctx) or self._step:
            return
        calls = [call._replace(text=f"{STEP}{n}: {call.text}") for n, call in enumerate(calls_of(ctx), start=1)]
        for event in calls:
            await self.system.step(self.memory, event)

    async def record_winner(self, ctx: BranchContext[Any]) -> bool:
        """Write down the steps of the winner of rivals; return False if there were none."""
        winner = self._rivals.get(str(ctx.vars.pop(_WINNER, None)))
        if winner is not None:
            self._take(winner)
            self._rivals.clear()
            await self.memory.record(winner.memory.backlog or ())
            return True
        value = ctx.vars.pop(_RIVAL, None)
        steps = value if isinstance(value, list) else []
        for step in steps:
            if isinstance(step, dict):
                await self.system.step(self.memory, Happening(str(step["text"]), Trust(str(step["trust"]))))
        return bool(steps)

    async def end(self, result: AgentResult, ctx: BranchContext[Any]) -> None:
        answer = _cut(result.answer or result.report or "nothing", _ANSWER_CHARS)
        trust = lowest(Trust.AGENT, ctx.seen_trust)
        await self.system.end(self.memory, Happening(f"Answer ({result.status.value}): {answer}", trust, closes=True))


def _turn(state: State) -> list[Message]:
    """Return the messages of the last step, the decision first; [] where there was none."""
    turn: list[Message] = []
    for message in reversed(state.messages):
        turn.insert(0, message)
        if message.role == "assistant":
            return turn
    return []


def step_of(state: State, room: int = 0) -> Happening | None:
    """Return the last step in words: what was called and what that gave; None where nothing was.

    Args:
        room: characters for all results together, where they are wanted whole; else each is cut to a line.
    """
    turn = _turn(state)
    if not turn:
        return None
    excerpt = partial(_cut, most=max(_RESULT_CHARS, room // max(1, len(turn) - 1)))
    results = {message.tool_call_id: message for message in turn if message.role == "tool"}
    lines, blocks = [], [*turn[0].content]
    for call in turn[0].tool_calls:
        if call.name == "done":
            continue  # the answer is an event of its own
        result = results.get(call.id)
        result_text = text_of(result.content) if result is not None else ""
        blocks += result.content if result is not None else ()
        failed = " failed" if result is not None and result.is_error else ""
        arguments = (
            call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
        )
        lines.append(f"{call.name} {_cut(arguments, _ARGUMENT_CHARS)}{failed}: {excerpt(result_text)}")
    for message in turn[1:]:
        if message.role == "user":  # results of a model without native calls
            blocks += message.content
            lines.append(excerpt(text_of(message.content)))
    if not lines:
        return None
    if state.memory:
        lines.append(f"Noted: {_cut(state.memory, _RESULT_CHARS)}")
    text = f"{STEP}{state.step}: " + "; ".join(lines)
    return Happening(text, lowest(Trust.AGENT, *(block.trust for block in blocks)))


def calls_of(ctx: BranchContext[Any]) -> list[Happening]:
    calls: dict[int, list[tuple[str, Trust]]] = {}
    for n, record in ended_on(ctx, _CALLS):
        outcome = record.outcome
        assert outcome is not None
        name = str(record.effect.get("component", "")).partition("@")[0]
        arguments = json.dumps(record.effect.get("arguments", {}), ensure_ascii=False)
        text = text_of(outcome.blocks()) if outcome.ok else f"failed: {outcome.error or outcome.status}"
        line = f"{name} {_cut(arguments, _ARGUMENT_CHARS)}: {_cut(text, _RESULT_CHARS)}"
        calls.setdefault(record.batch or n, []).append((line, outcome.trust))
    return [
        Happening("; ".join(line for line, _ in parts), lowest(Trust.AGENT, *(trust for _, trust in parts)))
        for parts in calls.values()
    ]


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split()) if most <= _RESULT_CHARS else text
    return line if len(line) <= most else f"{line[: most - 1]}…"


def memory_of(
    spec: AgentSpec, ctx: BranchContext[Any], kit: Kit, *, top: bool, trust: Trust, parts: PartSettings | None = None
) -> AgentMemory | None:
    """Return the memory of an agent, None for one that has none; the run's is its top agent's.

    Args:
        parts: of an agent that works in steps; those that remember are one system with the agent's own.

    Raises:
        UnknownComponentError: for a memory system that is not registered.
    """
    agent = kit.agents.get(spec.system)
    name = str(getattr(agent, "memory", "") or (ctx.manifest.memory if top else ""))
    factory: MemoryFactory | None = None
    if name not in ("", NO_MEMORY):
        factory = kit.memories.get(name)
        if factory is None:
            names = ", ".join(sorted(kit.memories)) or "none"
            raise UnknownComponentError(f"no memory system {name!r} is registered; registered: {names}")
    if parts is not None and (parts.summary or parts.retrieval or parts.long_term):
        step_memory = partial(StepMemory, bool(parts.summary), bool(parts.retrieval), bool(parts.long_term))
        inner = factory
        name, factory = StepMemory.name, lambda: step_memory(inner() if inner is not None else None)
    if factory is None:
        return None
    question = Happening(_cut(spec.instruction, _ANSWER_CHARS), trust)
    memory = SessionMemory(ctx, kit, spec.name, question, describe_memory(name, factory), leads=top)
    return AgentMemory(memory, factory(), kit.prompts.get("memory"), kit.prompts.get("memory_view"))
