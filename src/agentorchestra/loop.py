"""One step, few drivers: perceive -> interpret -> act, over immutable serialisable state.

`step` is the whole of it; `linear` repeats it to an end, `beam` runs rival steps and keeps the best. Everything a step
does to the world goes through the session (the door). What differs between agents are the parts.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, JsonValue

from agentorchestra.core.content import Block, Source, TextBlock, Trust, block_from, text_of
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Provenance, provenance_of
from agentorchestra.core.errors import ModelContextError, UsageError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, ModelSettings, ToolCall, ToolSchema
from agentorchestra.core.spec import AgentResult, Citation, RunStatus
from agentorchestra.models.prices import estimate_input_tokens
from agentorchestra.runtime.session import Session
from agentorchestra.tea.calling.repair import calls_in, harmless, mended, program_in, unknown
from agentorchestra.tea.retrieval.discovery import OPENING

REPEATS_NOTED = 2
REPEATS_ENDED = 4
STALLS_NOTED = 2
STALLS_ENDED = 4
"""Identical calls with the same result, steps without a successful call: noticed, then the answer is asked for."""

TROUBLES_ENDED = 4
"""Replies in a row that were withheld, empty or cut, or prompts that were too long: then the answer is asked for."""

MORE_ROOM = 2
"""A reply that was cut has room for so many times as many tokens when it is asked for again, where there are any."""

OVERFLOW_SHARE = 0.7
"""What is left of a prompt that a provider found too long."""


class Seen(BaseModel):
    """Something perceived: shown in this step only, or kept in the history from here on."""

    model_config = ConfigDict(frozen=True)

    blocks: tuple[Block, ...]
    keep: bool = False


class Decision(BaseModel):
    """What a model decided: its reasoning and the calls, as effects.

    Attributes:
        thinking, evaluation, memory, next_goal: the four fields of the reasoning (000, app. H), as far as it gave them;
            without them its words beside the calls are its thinking.
        message: the model's own message, for the history.
        tool_calls: what it asked for; `calls` holds the effect of each, mistakes included.
        heard: messages that arrived in this step and stay in the history.
        problem: why there is nothing to execute, said to the model in the next step.
        limited: the budget refused the decision; the next one must be the answer.
        overhead: tokens of the request besides the history: tools, what was perceived, the tail.
        overflow: tokens, as estimated, of a prompt that the provider says is longer than its window; else 0.
        final: this was the last allowed decision.
        words: a plain reply without a call, where that may be meant as the answer.
        ends: those words are the answer the first time they are said.
        troubled: the reply was withheld, empty or cut: no lack of progress.
        cut: tokens at which the reply was cut; else 0.
        dropped: names of arguments that were left out of a call because its tool has none such, by the call's id.
    """

    model_config = ConfigDict(frozen=True)

    thinking: str = ""
    evaluation: str = ""
    memory: str = ""
    next_goal: str = ""
    message: Message | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    calls: tuple[Effect, ...] = ()
    heard: tuple[Message, ...] = ()
    problem: str | None = None
    limited: str | None = None
    overhead: int = 0
    overflow: int = 0
    final: bool = False
    native: bool = True
    words: str = ""
    ends: bool = False
    troubled: bool = False
    cut: int = 0
    dropped: dict[str, tuple[str, ...]] = {}


class State(BaseModel):
    """Everything an agent carries from step to step.

    Attributes:
        messages: the history: system prompt, task, then decisions and results in pairs.
        step: decisions taken.
        max_steps: decisions allowed; the last one must answer.
        sources: where what was seen so far came from, for policy.
        memory, next_goal: of the last decision.
        repeated: the call that was repeated and how often; stalls: steps in a row without a successful call.
        troubles: replies in a row that held no decision, for another reason than the model's choice.
        cut: tokens at which the last reply was cut; else 0.
        problem: what was wrong with the last decision.
        limited: why the budget ends the work.
        result: the answer, once there is one.
        candidate: which of rival proposals this is (beam).
        head: messages at the front that are never taken out: system prompt and task.
        overhead: tokens of the last request besides the history.
        compactions: how often steps were taken out.
        words: the last reply was plain words, and it was said that this calls nothing.
        ceiling: tokens that a prompt may have, once a provider has found one too long; 0 for no such limit.
        opened: tools that were opened in the course of the work, in that order (tea/retrieval/discovery.py).
    """

    model_config = ConfigDict(frozen=True)

    messages: tuple[Message, ...]
    head: int = 2
    overhead: int = 0
    compactions: int = 0
    words: bool = False
    ceiling: int = 0
    step: int = 0
    max_steps: int = 20
    sources: tuple[Provenance, ...] = ()
    memory: str = ""
    next_goal: str = ""
    seen_calls: dict[str, int] = {}
    repeated: str = ""
    repeats: int = 0
    stalls: int = 0
    troubles: int = 0
    cut: int = 0
    problem: str | None = None
    limited: str | None = None
    result: AgentResult | None = None
    candidate: str = ""
    opened: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether there is a result."""
        return self.result is not None

    @property
    def must_answer(self) -> str:
        """Why the next decision must be the answer, "" if it need not."""
        if self.limited:
            return "budget"
        if self.step >= self.max_steps - 1:
            return "steps"
        if self.repeats >= REPEATS_ENDED or self.stalls >= STALLS_ENDED:
            return "no_progress"
        if self.troubles >= TROUBLES_ENDED:
            return "troubles"
        return ""

    def add(self, decision: Decision, results: Sequence[Outcome]) -> State:
        """The state after a decision and its results."""
        if decision.overflow and not decision.final:
            # Counted as a step: a prompt that cannot be made to fit must not be tried for ever.
            update = {"messages": self.messages + decision.heard, "step": self.step + 1}
            update |= {"troubles": self.troubles + 1}
            return self.model_copy(update={**update, "ceiling": int(decision.overflow * OVERFLOW_SHARE)})
        if decision.limited:
            return self.model_copy(update={"limited": decision.limited, "messages": self.messages + decision.heard})
        messages = [*decision.heard]
        if decision.message is not None:
            messages.append(decision.message)
        seen = dict(self.seen_calls)
        repeated, repeats = "", 0
        blocks: list[Block] = [block for message in messages for block in message.content]
        result: AgentResult | None = None
        failed = [call.name for call, one in zip(decision.tool_calls, results, strict=True) if not one.ok]
        text_blocks: list[Block] = []
        opened = list(self.opened)
        if decision.words and (decision.ends or self.words):
            # It may finish so; or it was told how to finish and answers in plain words again: that is how it finishes.
            result = AgentResult(answer=decision.words, steps=self.step + 1, memory=decision.memory or self.memory)
        for call, effect, outcome in zip(decision.tool_calls, decision.calls, results, strict=True):
            source = Source(kind=_SOURCE_KINDS.get(effect.kind, "tool"), ref=call.name)
            finished = _finishing(effect, outcome)
            taken = finished is None or not failed
            shown = outcome.blocks(source) if taken else (_not_taken(failed, source),)
            if call.id in decision.dropped:
                shown = (*shown, _left_out(decision.dropped[call.id], source))
            blocks.extend(shown)
            if decision.native:
                messages.append(
                    Message(
                        role="tool",
                        content=shown,
                        tool_call_id=call.id,
                        name=call.name,
                        is_error=not (outcome.ok and taken),
                    )
                )
            else:
                text_blocks += [block_from(f"Result of {call.name} ({call.id}):", trust=Trust.SYSTEM), *shown]
            mark = sha256_json([call.name, call.arguments, outcome.status, outcome.value, outcome.error])
            seen[mark] = seen.get(mark, 0) + 1
            if seen[mark] > repeats:
                repeats, repeated = seen[mark], call.name
            opened += [name for name in opened_by(effect, outcome) if name not in opened]
            if finished is not None and taken:
                result = _finished(finished, self.step + 1, decision.memory)
        if text_blocks:
            messages.append(Message(role="user", content=tuple(text_blocks)))
        useful = any(outcome.ok for outcome in results)
        return self.model_copy(
            update={
                "messages": self.messages + tuple(messages),
                "step": self.step + 1,
                "sources": _union(self.sources, provenance_of(blocks)),
                "memory": decision.memory or self.memory,
                "next_goal": decision.next_goal,
                "seen_calls": seen,
                "repeated": repeated if repeats >= REPEATS_NOTED else "",
                "repeats": repeats,
                "stalls": 0 if useful else self.stalls + (not decision.troubled),
                "troubles": self.troubles + 1 if decision.troubled and not useful else 0,
                "cut": decision.cut,
                "problem": decision.problem,
                "overhead": decision.overhead,
                "words": bool(decision.words),
                "opened": tuple(opened),
                "result": result or (_best_effort(self, decision, results) if decision.final else None),
            }
        )


_SOURCE_KINDS: dict[EffectKind, Any] = {
    EffectKind.INVOKE_AGENT: "agent",
    EffectKind.INVOKE_ACTION: "environment",
    EffectKind.ASK_HUMAN: "human",
}


def _union(a: tuple[Provenance, ...], b: tuple[Provenance, ...]) -> tuple[Provenance, ...]:
    return tuple(sorted({*a, *b}, key=lambda p: (p.kind, p.ref, p.trust.value)))


def described(schemas: Sequence[ToolSchema]) -> tuple[Provenance, ...]:
    """The descriptions of tools that come from outside: an agent that is offered these tools has read them."""
    return tuple(
        Provenance(kind="tool", ref=f"{one.name} (its description)", trust=one.trust)
        for one in schemas
        if one.trust is Trust.UNTRUSTED
    )


def opened_by(effect: Effect, outcome: Outcome) -> list[str]:
    """The tools that a call opened: those that find and open tools say so in their results."""
    opens = effect.kind is EffectKind.INVOKE_TOOL and effect.name in OPENING and outcome.ok
    named = outcome.value.get("opened") if opens and isinstance(outcome.value, dict) else None
    return [str(name) for name in named] if isinstance(named, list) else []


def _finishing(effect: Effect, outcome: Outcome) -> JsonValue:
    """What `done` gave back, called as a tool or by a program; None where it was not called, or refused."""
    if not outcome.ok:
        return None
    if effect.kind is EffectKind.RUN_CODE:
        return outcome.value.get("done") if isinstance(outcome.value, dict) else None
    return outcome.value if effect.name == "done" else None


def _not_taken(failed: Sequence[str], source: Source) -> TextBlock:
    """Why `done` is no end, where it stands beside a call that failed."""
    said = f"done was not taken, because {', '.join(dict.fromkeys(failed))} failed in the same step"
    return TextBlock(text=f"{said}: see what it says, then call done again", source=source, trust=Trust.SYSTEM)


def _left_out(names: Sequence[str], source: Source) -> TextBlock:
    """What was left out of a call."""
    said = f"Note: left out of this call, because it has no such argument: {', '.join(names)}."
    return TextBlock(text=said, source=source, trust=Trust.SYSTEM)


def _finished(value: JsonValue, steps: int, memory: str) -> AgentResult:
    fields = dict(value) if isinstance(value, dict) else {"answer": str(value)}
    return AgentResult.model_validate({**fields, "steps": steps, "memory": memory})


def _best_effort(state: State, decision: Decision, results: Sequence[Outcome]) -> AgentResult:
    """The last decision held no valid `done`: what it tried to say, or its words, are the best there is."""
    text = decision.message.text.strip() if decision.message is not None else ""
    fields = decision_fields(text)
    if fields is not None:
        text = str(fields.get("answer") or decision.memory or state.memory)
    report = "the agent reached its last step without calling done"
    for call, effect, outcome in zip(decision.tool_calls, decision.calls, results, strict=True):
        if effect.kind is EffectKind.RUN_CODE:
            text = text_of(outcome.blocks()) if outcome.ok else decision.thinking or decision.memory
            report = f"the last step's program failed: {outcome.error}" if not outcome.ok else report
        elif call.name == "done" and isinstance(call.arguments, dict):
            text = str(call.arguments.get("answer") or text)
            report = f"the last step's done was refused: {outcome.error}"
    return AgentResult(
        status=RunStatus.PARTIAL,
        answer=text,
        report=report,
        steps=state.step + 1,
        memory=decision.memory or state.memory,
    )


Perceive = Callable[[State, Session[Any]], Awaitable[Seen | None]]
Decide = Callable[[State, list[Seen], Session[Any]], Awaitable[Decision]]
Observe = Callable[[State, Session[Any]], Awaitable[State]]


@dataclass(frozen=True)
class Parts:
    """What makes an agent: what it perceives, how it decides, what happens after its calls.

    Attributes:
        perceive: each may add something to the view of this step.
        decide: from state and view to a decision (RequestModel, parse, repair).
        observe: run after the calls, in order.
        environments: the environments its calls act on (beam needs to branch them).
    """

    decide: Decide
    perceive: tuple[Perceive, ...] = ()
    observe: tuple[Observe, ...] = ()
    environments: tuple[str, ...] = ()


async def step(state: State, session: Session[Any], parts: Parts) -> State:
    """Perceive, interpret, act: one step of any agent."""
    view = [seen for part in parts.perceive if (seen := await part(state, session)) is not None]
    decision = await parts.decide(state, view, session)
    results = await session.perform_all(decision.calls)  # mistakes come back as observations
    state = state.add(decision, results)
    for part in parts.observe:
        state = await part(state, session)
    return state


async def linear(state: State, session: Session[Any], parts: Parts) -> State:
    """Step after step until there is a result; the last allowed step must give it."""
    while not state.ended:
        state = await step(state, session, parts)
        session.partial = {"steps": state.step, "memory": state.memory, "next_goal": state.next_goal}
    return state


Score = Callable[[State, Session[Any]], Awaitable[float]]


async def beam(
    state: State, session: Session[Any], parts: Parts, *, score: Score, width: int = 1, candidates: int = 3
) -> State:
    """Rival steps, the best kept: width 1 is best-of-N per step, more is a beam (004, sec. 3.2.3).

    Args:
        state: where to begin.
        session: the branch; candidates get branches and worlds of their own, the winner's state is adopted.
        parts: see Parts.
        score: judges a state after a step; higher is better, ties go to the earlier candidate.
        width: states kept after each step.
        candidates: proposals made from each kept state.

    Raises:
        UsageError: for a width or number under 1, or an environment that cannot branch.
    """
    if width < 1 or candidates < 1:
        raise UsageError(f"a beam of width {width} with {candidates} candidates is empty; both must be at least 1")
    for name in parts.environments:
        factory = session.run.services.environments.get(name)
        if factory is not None and factory().branching == "none":
            raise UsageError(
                f"environment {name!r} cannot branch (branching = none), so rival steps would act on one another; "
                "use the linear driver, or an environment with snapshots"
            )
    front = [(state, session, 0.0)]
    while not all(kept.ended for kept, _, _ in front):
        rivals: list[tuple[State, Session[Any], float]] = []
        for kept, branch, points in front:
            if kept.ended:
                rivals.append((kept, branch, points))
                continue
            for index, rival in enumerate(branch.candidates(candidates)):
                label = f"{index + 1}/{candidates}" if candidates > 1 else ""
                rivals.append((kept.model_copy(update={"candidate": label}), rival, points))
        work = [_Attempt(before, branch, points, parts, score) for before, branch, points in rivals]
        scored = await session.rivals([one.run for one in work])
        # A stable sort: ties go to the earlier candidate, so that a resume keeps the same ones.
        front = sorted(scored, key=lambda one: -one[2])[:width]
        best = front[0][0]
        session.partial = {"steps": best.step, "memory": best.memory, "next_goal": best.next_goal}
    await session.adopt(front[0][1])
    return front[0][0]


@dataclass
class _Attempt:
    """One rival step and its score."""

    before: State
    branch: Session[Any]
    points: float
    parts: Parts
    score: Score

    async def run(self) -> tuple[State, Session[Any], float]:
        """The state after the step; an ended state is neither stepped nor judged again."""
        if self.before.ended:
            return self.before, self.branch, self.points
        after = await step(self.before, self.branch, self.parts)
        return after, self.branch, await self.score(after, self.branch)


# -- decide ------------------------------------------------------------------------------------------------------------


class Toolset(Protocol):
    """What an agent may call, as schemas for the model and as effects for the door."""

    def schemas(self, opened: Sequence[str] = ()) -> tuple[ToolSchema, ...]:
        """The tools in a stable order; what was opened later stands at the end."""
        ...

    def effect(
        self, call: ToolCall, session: Session[Any], provenance: tuple[Provenance, ...], opened: Sequence[str] = ()
    ) -> Effect:
        """The effect of a call; a mistake gives an invalid effect with the sentence that says what is allowed."""
        ...


@dataclass
class ModelDecider:
    """`decide` with a model: builds the request, parses the answer, turns mistakes into observations.

    Attributes:
        model: profile or `provider:model`.
        tools: what it may call.
        tail: renders the part of the prompt that changes from step to step; last, so that the front stays cacheable.
        native: native tool calls, or the JSON text format for models without them.
        settings: parameters of the request.
        max_calls: calls accepted in one decision.
        role: of the agent.
        content_hash: of the model's profile.
        plain: whether plain words, said twice, are an answer (they cannot be where a structured one is asked for).
        text_ends: whether they are the answer the first time they are said.
        fields: whether the reasoning is written in fields (a decision in the JSON text format says so otherwise).
        keeps_tools: whether the last step offers what every step does; else `done` alone.
        forces: whether the last step forces the call of `done`, besides asking for it.
        asked: the last request: what the next one shares with it need not be hashed again.
    """

    model: str
    tools: Toolset
    tail: Callable[[State, list[Seen]], str]
    native: bool = True
    settings: ModelSettings = field(default_factory=ModelSettings)
    max_calls: int = 16
    role: str = "agent"
    content_hash: str = ""
    plain: bool = True
    text_ends: bool = False
    fields: bool = True
    keeps_tools: bool = False
    forces: bool = False
    asked: ModelRequest | None = field(default=None, init=False)

    async def __call__(self, state: State, view: list[Seen], session: Session[Any]) -> Decision:
        """One decision."""
        final = bool(state.must_answer)
        heard = tuple(Message(role="user", content=seen.blocks) for seen in view if seen.keep)
        shown = [block for seen in view if not seen.keep for block in seen.blocks]
        tail = TextBlock(text=self.tail(state, view), source=Source(kind="prompt"), trust=Trust.SYSTEM)
        messages = (*state.messages, *heard, Message(role="user", content=(*shown, tail)))
        schemas = self.tools.schemas(state.opened)
        settings = self.settings
        if final and self.keeps_tools:  # the front of the prompt stays as it is, for the provider's cache
            settings = settings.model_copy(update={"tool_choice": "done"}) if self.forces and self.native else settings
        elif final:
            schemas = tuple(schema for schema in schemas if schema.name == "done")
        shown_now = provenance_of([b for m in messages[len(state.messages) :] for b in m.content])
        provenance = _union(_union(state.sources, shown_now), described(schemas))
        request = ModelRequest(
            model=self.model, messages=messages, tools=schemas if self.native else (), settings=settings
        ).after(self.asked)
        if state.cut and not final:  # the last reply has the room that is kept for it
            request = self._roomier(request, state.cut)
        self.asked = request
        outcome = await session.perform(
            Effect(
                kind=EffectKind.REQUEST_MODEL,
                component=f"{self.model}@1.0.0",
                content_hash=self.content_hash,
                request=request,
                mode=Mode.REPEATABLE,
                role=self.role,
                purpose="final" if final else "decision",
                provenance=provenance,
            )
        )
        if outcome.status == "limited":
            return Decision(limited=outcome.error, heard=heard)
        if not outcome.ok:
            too_long = outcome.error_type == ModelContextError.__name__
            overflow = estimate_input_tokens(request) if too_long else 0
            return Decision(problem=outcome.error, heard=heard, final=final, overflow=overflow)
        decision = self._interpret(state, outcome, session, provenance, heard, final)
        beside = request.model_copy(update={"messages": messages[len(state.messages) + len(heard) :]})
        return decision.model_copy(update={"overhead": estimate_input_tokens(beside)})

    def _interpret(
        self,
        state: State,
        outcome: Outcome,
        session: Session[Any],
        provenance: tuple[Provenance, ...],
        heard: tuple[Message, ...],
        final: bool,
    ) -> Decision:
        response = outcome.response
        if self.native and not response.tool_calls:
            response = self._with_calls(response, state)
        fields, calls, problem = self.read(response, state, final=final)
        effects = []
        dropped: dict[str, tuple[str, ...]] = {}
        cut = self.cut_at(response) if not calls or isinstance(calls[-1].arguments, str) else 0
        for index, call in enumerate(calls):
            effect = self.effect(call, session, provenance, final=final, opened=state.opened)
            if effect.invalid is not None:
                effect, missing = self._mended(call, effect, session, provenance, state, final=final)
                dropped |= {call.id: missing} if missing else {}
            if effect.invalid is not None and cut and call is calls[-1]:
                effect = effect.model_copy(update={"invalid": f"your reply was cut at {cut} tokens within this call"})
            if index >= self.max_calls:
                effect = effect.model_copy(
                    update={"invalid": f"too many calls in one step: at most {self.max_calls} are executed"}
                )
            effects.append(effect)
        said = fields or {}
        plain = self.plain and not calls and response.finish_reason == "stop" and self.worded(response, fields)
        text = TextBlock(text=response.text, source=Source(kind="agent", ref=session.actor), trust=outcome.trust)
        message = Message(
            role="assistant",
            content=(text,) if response.text else (),
            tool_calls=calls if self.native else (),
            thoughts=response.thoughts,
        )
        return Decision(
            thinking=_thought(response, fields),
            evaluation=str(said.get("evaluation_previous_goal") or ""),
            memory=str(said.get("memory") or ""),
            next_goal=str(said.get("next_goal") or ""),
            message=message if message.content or message.tool_calls else None,
            tool_calls=calls,
            calls=tuple(effects),
            heard=heard,
            problem=problem,
            final=final,
            native=self.native,
            words=response.text.strip() if plain else "",
            ends=self.text_ends,
            troubled=bool(cut) or (not calls and _withheld(response)),
            cut=cut,
            dropped=dropped,
        )

    def cut_at(self, response: ModelResponse) -> int:
        """The tokens at which a reply was cut; 0 for one that was not."""
        if response.finish_reason != "length":
            return 0
        asked = self.asked.settings.max_tokens if self.asked is not None else None
        return max(response.usage.output_tokens, asked or 1)

    def _roomier(self, request: ModelRequest, cut: int) -> ModelRequest:
        """The request with more room for its reply than the one before had, whose reply was cut."""
        room, most = cut * MORE_ROOM, request.settings.max_tokens
        changes = {"least_tokens": room, "max_tokens": None if most is None else max(most, room)}
        return request.model_copy(update={"settings": request.settings.model_copy(update=changes)})

    def _with_calls(self, response: ModelResponse, state: State) -> ModelResponse:
        """The response with calls that the model wrote into its text: some servers do not take them out."""
        words, written = calls_in(response.text, {schema.name for schema in self.tools.schemas(state.opened)})
        calls = tuple(ToolCall(id="", name=name, arguments=given) for name, given in written)
        return response.model_copy(update={"text": words, "tool_calls": calls}) if calls else response

    def _mended(
        self,
        call: ToolCall,
        effect: Effect,
        session: Session[Any],
        provenance: tuple[Provenance, ...],
        state: State,
        *,
        final: bool,
    ) -> tuple[Effect, tuple[str, ...]]:
        """The effect of a call whose arguments do not fit, if it is plain what was meant; and what it leaves out."""
        schema = next((one for one in self.tools.schemas(state.opened) if one.name == call.name), None)
        arguments = mended(call.arguments, schema.parameters) if schema is not None else None
        if schema is None or arguments is None:
            return effect, ()
        extra = tuple(unknown(arguments, schema.parameters))
        for names in ((), extra) if extra else ((),):
            kept = {name: value for name, value in arguments.items() if name not in names}
            again = call.model_copy(update={"arguments": kept})
            tried = self.effect(again, session, provenance, final=final, opened=state.opened)
            if tried.invalid is None and (not names or harmless(tried)):
                return tried, names
        return effect, ()

    def read(
        self, response: ModelResponse, state: State, *, final: bool
    ) -> tuple[dict[str, Any] | None, tuple[ToolCall, ...], str | None]:
        """The fields of the reasoning, the calls, and why there are none."""
        fields = decision_fields(response.text)
        calls, problem = self._calls(response, fields, state)
        if final:
            calls = tuple(call for call in calls if call.name == "done")[:1]
        return fields, calls, problem

    def effect(
        self,
        call: ToolCall,
        session: Session[Any],
        provenance: tuple[Provenance, ...],
        *,
        final: bool,
        opened: Sequence[str] = (),
    ) -> Effect:
        """What a call asks of the door."""
        return self.tools.effect(call, session, provenance, opened)

    def worded(self, response: ModelResponse, fields: dict[str, Any] | None) -> bool:
        """Whether a reply without a call is in plain words, which may be meant as the answer."""
        # An answer in words may hold JSON of its own; the fields of a decision say that it is none.
        return self.native and (fields is None or (self.text_ends and not any(name in fields for name in _FIELDS)))

    def _calls(
        self, response: ModelResponse, fields: dict[str, Any] | None, state: State
    ) -> tuple[tuple[ToolCall, ...], str | None]:
        # A model without native calls gives none; in a fork a recorded reply may be another model's.
        if response.tool_calls:
            return _unique(response.tool_calls, state.step), None
        known = [schema.name for schema in self.tools.schemas(state.opened)]
        names = ", ".join(known)
        listed = fields.get("tool") if fields else None
        if isinstance(listed, dict):
            listed = [listed]
        if isinstance(listed, list) and listed:
            calls = []
            for index, item in enumerate(listed):
                entry = item if isinstance(item, dict) else {"name": str(item)}
                arguments = entry.get("args", entry.get("arguments", {}))
                calls.append(
                    ToolCall(
                        id=f"call_{state.step}_{index}",
                        name=str(entry.get("name", "")),
                        arguments=arguments if isinstance(arguments, dict) and _is_json(arguments) else str(arguments),
                    )
                )
            return tuple(calls), None
        if not self.native and (written := _written_out(response.text, known)):
            return tuple(
                ToolCall(id=f"call_{state.step}_{index}", name=name, arguments=given)
                for index, (name, given) in enumerate(written)
            ), None
        if response.finish_reason == "length":
            at = self.cut_at(response)
            return (), f"your reply was cut at {at} tokens before a call; this one may be longer, but be brief"
        if response.finish_reason == "content_filter":
            return (), "the reply was withheld or refused; put the next step differently"
        if not response.text.strip():
            return (), f"your reply was empty; call at least one of: {names}. To finish, call done with the answer"
        if not self.native and fields is None:
            form = '"thinking", "evaluation_previous_goal", "memory", "next_goal"' if self.fields else '"thought"'
            return (), (
                "your reply was not the JSON object that was asked for; answer with "
                f'{{{form}, "tool": [{{"name", "args"}}]}}; tools: {names}'
            )
        return (), f"your reply called no tool; call at least one of: {names}. To finish, call done with the answer"


def _thought(response: ModelResponse, fields: dict[str, Any] | None) -> str:
    """Its reasoning: the field for it, else what the provider gives of it, else its words."""
    said = fields or {}
    return str(said.get("thinking") or said.get("thought") or response.thinking or ("" if fields else response.text))


def _withheld(response: ModelResponse) -> bool:
    """Whether there is nothing to read in a reply."""
    return response.finish_reason == "content_filter" or not response.text.strip()


def _written_out(text: str, names: Sequence[str]) -> list[tuple[str, dict[str, JsonValue] | str]]:
    """The calls of a reply in another form than the JSON that was asked for: by their marks, or as a program."""
    _, calls = calls_in(text, names)
    if not calls and "python" in names and (code := program_in(text)):
        return [("python", {"code": code})]
    return calls


def _unique(calls: tuple[ToolCall, ...], step_number: int) -> tuple[ToolCall, ...]:
    """Every call gets an id of its own: some servers send none, or the same one twice."""
    seen: set[str] = set()
    result = []
    for index, call in enumerate(calls):
        one = call
        if not call.id or call.id in seen:
            one = call.model_copy(update={"id": f"call_{step_number}_{index}"})
        if not _is_json(one.arguments):
            one = one.model_copy(update={"arguments": repr(one.arguments)})
        seen.add(one.id)
        result.append(one)
    return tuple(result)


def _is_json(arguments: dict[str, JsonValue] | str) -> bool:
    """Whether arguments can be written: models give NaN and infinities too, which JSON does not have."""
    try:
        sha256_json(arguments)
    except ValueError:
        return False
    return True


def decision_fields(text: str) -> dict[str, Any] | None:
    """The JSON object in a reply, also inside a code fence or between words that hold braces; None without one.

    Of several the one that looks like a decision is taken.
    """
    decoder = json.JSONDecoder(strict=False)
    found: list[dict[str, Any]] = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            if isinstance(value, dict):
                found.append(value)
        at = text.find("{", end)
    return max(found, key=lambda one: sum(field in one for field in _FIELDS) + ("tool" in one), default=None)


_FIELDS = ("thinking", "thought", "evaluation_previous_goal", "memory", "next_goal", "tool", "answer")


# -- parts for perceive ------------------------------------------------------------------------------------------------


async def inbox(state: State, session: Session[Any]) -> Seen | None:
    """What was told to a running task since the last step: a Receive, recorded even if empty."""
    outcome = await session.perform(
        Effect(kind=EffectKind.RECEIVE, component="inbox@1.0.0", mode=Mode.PURE, role=session.role)
    )
    texts = outcome.value if isinstance(outcome.value, list) else []
    if not texts:
        return None
    blocks = tuple(
        TextBlock(text=str(text), source=Source(kind="human", ref="tell"), trust=Trust.USER) for text in texts
    )
    return Seen(blocks=blocks, keep=True)


def environment_state(component: str, instance: str | None = None) -> Perceive:
    """What an environment shows now, through the door."""

    async def part(state: State, session: Session[Any]) -> Seen | None:
        name = component.rpartition("@")[0] or component
        outcome = await session.perform(
            Effect(
                kind=EffectKind.INVOKE_ACTION,
                component=component,
                arguments={"action": "state"},
                mode=Mode.REPEATABLE,
                instance=instance or name,
                role=session.role,
            )
        )
        source = Source(kind="environment", ref=name)
        if outcome.status == "ok":
            return Seen(blocks=outcome.blocks(source))
        # Said once by whoever hears it first, so it has to stay in view.
        said = TextBlock(text=f"{name}: {outcome.error}", source=source, trust=outcome.trust)
        return Seen(blocks=(said,), keep=outcome.status == "environment_lost")

    return part


__all__ = [
    "Citation",
    "Decision",
    "ModelDecider",
    "Parts",
    "Perceive",
    "Seen",
    "State",
    "Toolset",
    "beam",
    "decision_fields",
    "environment_state",
    "inbox",
    "linear",
    "opened_by",
    "step",
]
