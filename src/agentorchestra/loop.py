"""One step, few drivers: perceive -> interpret -> act, over immutable serialisable state.

`step` is the whole of it; `linear` repeats it to an end, `beam` runs rival steps and keeps the best, `best_of` whole
runs. Everything a step does to the world goes through the context (the door). What differs between agents are the
parts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import BaseModel, JsonValue

from agentorchestra.core.budget import NO_USAGE
from agentorchestra.core.content import Block, Source, TextBlock, Trust, block_from, text_of
from agentorchestra.core.effects import (
    DELEGATION,
    FINISH,
    OF_AGENTS,
    Effect,
    EffectKind,
    Mode,
    Outcome,
    Provenance,
    provenance_of,
    union,
)
from agentorchestra.core.errors import UsageError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import Message, ToolCall, ToolSchema
from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.worlds import may_be_tried
from agentorchestra.tea.calling.replies import decision_fields
from agentorchestra.tea.retrieval.discovery import OPENING

REPEATS_NOTED = 2
REPEATS_ENDED = 4
STALLS_NOTED = 2
STALLS_ENDED = 4
"""Identical calls with the same result, steps without a successful call: noticed, then the answer is asked for."""

TROUBLES_ENDED = 4
"""Replies in a row that were withheld, empty or cut, or prompts that were too long: then the answer is asked for."""

TASK = "task"
"""The name of the message with the user's words in a turn of a session that is not the first."""

MATERIAL = "material"
"""The name of the message behind it, with what the turn's task was given to know."""

OVERFLOW_SHARE = 0.7
"""What is left of a prompt that a provider found too long."""


class Seen(BaseModel, frozen=True):
    """Something perceived: shown in this step only, or kept in the history from here on."""

    blocks: tuple[Block, ...]
    keep: bool = False


class Decision(BaseModel, frozen=True):
    """A model's decision: its reasoning and the calls, as effects.

    Attributes:
        thinking, evaluation, memory, next_goal: the four fields of the reasoning (000, app. H), as far as it gave them;
            without them its words beside the calls are its thinking.
        message: the model's own message, for the history.
        tool_calls: what it asked for; `calls` holds the effect of each, mistakes included.
        mail: messages that arrived in this step and stay in the history.
        problem: why there is nothing to execute, said to the model in the next step.
        shortage: the budget refused the decision; the next one must be the answer.
        overhead: tokens of the request besides the history: tools, what was perceived, the tail.
        scale: the tokens that the provider counted of the request, for each that was estimated; 0 where it did not say.
        overflow: tokens, as estimated, of a prompt that the provider says is longer than its window; else 0.
        final: this was the last allowed decision.
        words: a plain reply without a call, where that may be meant as the answer.
        ends: those words are the answer the first time they are said.
        refusal: that the model refused to reply, or its provider withheld the reply; "" for neither.
        trouble: the reply was withheld, empty or cut: no lack of progress.
        cut: tokens at which the reply was cut; else 0.
        extra_names: names of arguments that were left out of a call because its tool has none such, by the call's id.
        finish: the name of the tool that ends the agent's work.
    """

    thinking: str = ""
    evaluation: str = ""
    memory: str = ""
    next_goal: str = ""
    message: Message | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    calls: tuple[Effect, ...] = ()
    mail: tuple[Message, ...] = ()
    problem: str | None = None
    shortage: str | None = None
    overhead: int = 0
    scale: float = 0.0
    overflow: int = 0
    final: bool = False
    native: bool = True
    words: str = ""
    ends: bool = False
    refusal: str = ""
    trouble: bool = False
    cut: int = 0
    extra_names: dict[str, tuple[str, ...]] = {}
    finish: str = "done"


_Call = tuple[ToolCall, Effect, Outcome]


class State(BaseModel, frozen=True):
    """Everything an agent carries from step to step.

    Attributes:
        messages: the history: system prompt, task, then decisions and results in pairs.
        step: decisions taken.
        max_steps: decisions allowed; the last one must answer.
        sources: where what was seen so far came from, for policy.
        memory, next_goal: of the last decision.
        repeated_call: the call that was repeated and how often; stalls: steps in a row without a successful call.
        troubles: replies in a row that held no decision, for another reason than the model's choice.
        cut: tokens at which the last reply was cut; else 0.
        problem: what was wrong with the last decision.
        shortage: why the budget ends the work.
        result: the answer, once there is one.
        candidate: which of rival proposals this is (beam).
        rewards: of its steps by whoever chose between rivals, 0 to 10 each.
        head: messages at the front that are never taken out: system prompt and task.
        overhead: tokens of the last request besides the history.
        scale: the tokens that its provider counted of the last request, for each that was estimated.
        compactions: how often steps were taken out.
        words: the last reply was plain words, and it was said that this calls nothing.
        ceiling: tokens that a prompt may have, once a provider has found one too long; 0 for no such limit.
        open_tools: tools that were opened in the course of the work, in that order (tea/retrieval/discovery.py).
    """

    messages: tuple[Message, ...]
    head: int = 2
    overhead: int = 0
    scale: float = 1.0
    compactions: int = 0
    words: bool = False
    ceiling: int = 0
    step: int = 0
    max_steps: int = 20
    sources: tuple[Provenance, ...] = ()
    memory: str = ""
    next_goal: str = ""
    seen_calls: dict[str, int] = {}
    repeated_call: str = ""
    repeats: int = 0
    stalls: int = 0
    troubles: int = 0
    cut: int = 0
    problem: str | None = None
    shortage: str | None = None
    result: AgentResult | None = None
    candidate: str = ""
    rewards: tuple[float, ...] = ()
    open_tools: tuple[str, ...] = ()

    @property
    def steps_at(self) -> int:
        """Return the place in the history at which the steps of this work begin, behind its task."""
        places = (place for place in range(len(self.messages), self.head, -1) if _is_task(self.messages[place - 1]))
        return next(places, self.head)

    @property
    def task_messages(self) -> tuple[Message, ...]:
        """Return the messages with the task and what was given with it; of a session those of the last turn."""
        end = self.steps_at
        start = next((place for place in range(end, 1, -1) if not _is_task(self.messages[place - 1])), 1)
        return self.messages[1:end] if end == self.head else self.messages[start:end]

    @property
    def is_over(self) -> bool:
        return self.result is not None

    @property
    def must_answer(self) -> str:
        if self.shortage:
            return "budget"
        if self.step >= self.max_steps - 1:
            return "steps"
        if self.repeats >= REPEATS_ENDED or self.stalls >= STALLS_ENDED:
            return "no_progress"
        if self.troubles >= TROUBLES_ENDED:
            return "troubles"
        return ""

    def add(self, decision: Decision, results: Sequence[Outcome]) -> State:
        if decision.overflow and not decision.final:
            # Counted as a step: a prompt that cannot be made to fit must not be tried for ever.
            update = {"messages": self.messages + decision.mail, "step": self.step + 1}
            update |= {"troubles": self.troubles + 1}
            return self.model_copy(update={**update, "ceiling": int(decision.overflow * OVERFLOW_SHARE)})
        if decision.shortage:
            update = {"shortage": decision.shortage, "messages": self.messages + decision.mail}
            if self.shortage:  # not even the last answer could be had
                update["result"] = AgentResult(status=RunStatus.PARTIAL, steps=self.step, memory=self.memory)
            return self.model_copy(update=update)
        calls = [*zip(decision.tool_calls, decision.calls, results, strict=True)]
        failed = [call.name for call, _, outcome in calls if not outcome.ok]
        changes = self._history_after(decision, calls, failed) | self._counts_after(decision, calls)
        result = self._result(decision, calls, failed)
        if result is None and decision.final:
            result = _best_effort(self, decision, results)
        return self.model_copy(update={**changes, "result": result})

    def _history_after(self, decision: Decision, calls: Sequence[_Call], failed: list[str]) -> dict[str, Any]:
        """Return the history behind a decision, and what it shows."""
        observations = [_blocks(decision, *call, failed) for call in calls]
        messages = [*decision.mail, *([decision.message] if decision.message is not None else [])]
        blocks = [block for message in messages for block in message.content]
        blocks += [block for group in observations for block in group]
        names = [name for _, effect, outcome in calls for name in opened_by(effect, outcome)]
        return {
            "messages": (*self.messages, *messages, *_messages(decision, calls, observations, failed)),
            "sources": union(self.sources, provenance_of(blocks)),
            "memory": decision.memory or self.memory,
            "next_goal": decision.next_goal,
            "problem": decision.problem,
            "overhead": decision.overhead,
            "scale": decision.scale or self.scale,
            "words": bool(decision.words),
            "open_tools": tuple(dict.fromkeys((*self.open_tools, *names))),
        }

    def _counts_after(self, decision: Decision, calls: Sequence[_Call]) -> dict[str, Any]:
        """Return the counts behind a decision: steps, calls that repeat, steps and replies that led nowhere."""
        counts = dict(self.seen_calls)
        tool, repeats = "", 0
        for call, _, outcome in calls:
            mark = sha256_json([call.name, call.arguments, outcome.status, outcome.value, outcome.error])
            counts[mark] = counts.get(mark, 0) + 1
            if counts[mark] > repeats:
                repeats, tool = counts[mark], call.name
        useful = any(outcome.ok for _, _, outcome in calls)
        return {
            "step": self.step + 1,
            "seen_calls": counts,
            "repeated_call": tool if repeats >= REPEATS_NOTED else "",
            "repeats": repeats,
            "stalls": 0 if useful else self.stalls + (not decision.trouble),
            "troubles": self.troubles + 1 if decision.trouble and not useful else 0,
            "cut": decision.cut,
        }

    def _result(self, decision: Decision, calls: Sequence[_Call], failed: list[str]) -> AgentResult | None:
        """Return the result with which a decision ends the work, None where it goes on."""
        step, result = self.step + 1, None
        if decision.words and (decision.ends or self.words):
            # It may finish so; or it was told how to finish and answers in plain words again: that is how it finishes.
            result = AgentResult(answer=decision.words, steps=step, memory=decision.memory or self.memory)
        if decision.refusal:  # asked again, it refuses again
            result = AgentResult(status=RunStatus.BLOCKED, report=decision.refusal, steps=step)
        for _, effect, outcome in calls:
            if not failed and (finished := _finishing(effect, outcome)) is not None:
                result = _finished(finished, step, decision.memory)
        return result


def _is_task(message: Message) -> bool:
    return message.role == "user" and message.name in (TASK, MATERIAL)


_SOURCE_KINDS: dict[EffectKind, Any] = {
    EffectKind.INVOKE_AGENT: "agent",
    EffectKind.INVOKE_ACTION: "environment",
    EffectKind.ASK_HUMAN: "human",
}


def descriptions(schemas: Sequence[ToolSchema]) -> tuple[Provenance, ...]:
    """Return the descriptions of tools that come from outside: an agent that is offered these has read them."""
    return tuple(
        Provenance(kind="tool", ref=f"{schema.name} (its description)", trust=schema.trust)
        for schema in schemas
        if schema.trust is Trust.UNTRUSTED
    )


def opened_by(effect: Effect, outcome: Outcome) -> list[str]:
    """Return the tools that a call opened: those that find and open tools say so in their results."""
    opens = effect.kind is EffectKind.INVOKE_TOOL and effect.name in OPENING and outcome.ok
    names = outcome.value.get("opened") if opens and isinstance(outcome.value, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []


def _finishing(effect: Effect, outcome: Outcome) -> JsonValue:
    """Return what the finishing tool gave back, called as a tool or by a program; None without it, or refused."""
    if not outcome.ok:
        return None
    if effect.kind is EffectKind.RUN_CODE:
        return outcome.value.get("done") if isinstance(outcome.value, dict) else None
    return outcome.value if effect.purpose == FINISH else None


def _blocks(
    decision: Decision, call: ToolCall, effect: Effect, outcome: Outcome, failed: Sequence[str]
) -> tuple[Block, ...]:
    """Return what the agent is shown of a call: its result, and what was not taken or left out."""
    source = Source(kind=_SOURCE_KINDS.get(effect.kind, "tool"), ref=call.name)
    is_refused = bool(failed) and _finishing(effect, outcome) is not None
    blocks = (_rejection(call.name, failed, source),) if is_refused else outcome.blocks(source)
    return (*blocks, _left_out(decision.extra_names[call.id], source)) if call.id in decision.extra_names else blocks


def _messages(
    decision: Decision, calls: Sequence[_Call], observations: Sequence[tuple[Block, ...]], failed: Sequence[str]
) -> list[Message]:
    """Return the results of calls for the history: a message each, or one for a model without native calls."""
    if decision.native:
        return [
            Message(
                role="tool",
                content=blocks,
                tool_call_id=call.id,
                name=call.name,
                is_error=not outcome.ok or (bool(failed) and _finishing(effect, outcome) is not None),
            )
            for (call, effect, outcome), blocks in zip(calls, observations, strict=True)
        ]
    texts: list[Block] = []
    for (call, _, _), blocks in zip(calls, observations, strict=True):
        texts += [block_from(f"Result of {call.name} ({call.id}):", trust=Trust.SYSTEM), *blocks]
    return [Message(role="user", content=tuple(texts))] if texts else []


def _rejection(name: str, failed: Sequence[str], source: Source) -> TextBlock:
    """Say why a finishing call is no end, where it stands beside a call that failed."""
    reason = f"{name} was not taken, because {', '.join(dict.fromkeys(failed))} failed in the same step"
    return TextBlock(text=f"{reason}: see what it says, then call {name} again", source=source, trust=Trust.SYSTEM)


def _left_out(names: Sequence[str], source: Source) -> TextBlock:
    note = f"Note: left out of this call, because it has no such argument: {', '.join(names)}."
    return TextBlock(text=note, source=source, trust=Trust.SYSTEM)


def _finished(value: JsonValue, steps: int, memory: str) -> AgentResult:
    fields = dict(value) if isinstance(value, dict) else {"answer": str(value)}
    return AgentResult.model_validate({**fields, "steps": steps, "memory": memory})


def _best_effort(state: State, decision: Decision, results: Sequence[Outcome]) -> AgentResult:
    """Return what the last decision tried to say, or its words, where it held no valid `done`."""
    text = decision.message.text.strip() if decision.message is not None else ""
    fields = decision_fields(text)
    if fields is not None:
        text = str(fields.get("answer") or decision.memory or state.memory)
    report = f"the agent reached its last step without calling {decision.finish}"
    for call, effect, outcome in zip(decision.tool_calls, decision.calls, results, strict=True):
        if effect.kind is EffectKind.RUN_CODE:
            text = text_of(outcome.blocks()) if outcome.ok else decision.thinking or decision.memory
            report = f"the last step's program failed: {outcome.error}" if not outcome.ok else report
        elif effect.purpose == FINISH and isinstance(call.arguments, dict):
            text = str(call.arguments.get("answer") or text)
            report = f"the last step's {call.name} was refused: {outcome.error}"
    return AgentResult(
        status=RunStatus.PARTIAL,
        answer=text,
        report=report,
        steps=state.step + 1,
        memory=decision.memory or state.memory,
    )


Perceive = Callable[[State, BranchContext[Any]], Awaitable[Seen | None]]
Decide = Callable[[State, list[Seen], BranchContext[Any]], Awaitable[Decision]]
Observe = Callable[[State, BranchContext[Any]], Awaitable[State]]


@dataclass(frozen=True)
class Parts:
    """The parts of an agent: what it perceives, how it decides, what happens after its calls.

    Attributes:
        environments: those its calls act on.
    """

    decide: Decide
    perceive: tuple[Perceive, ...] = ()
    observe: tuple[Observe, ...] = ()
    environments: tuple[str, ...] = ()


async def step(state: State, ctx: BranchContext[Any], parts: Parts) -> State:
    """Perceive, interpret, act: one step of any agent."""
    decision = await parts.decide(state, await _view(state, ctx, parts), ctx)
    results = await ctx.perform_all(decision.calls)  # mistakes come back as observations
    return await _observe(state.add(decision, results), ctx, parts)


async def _view(state: State, ctx: BranchContext[Any], parts: Parts) -> list[Seen]:
    return [seen for part in parts.perceive if (seen := await part(state, ctx)) is not None]


async def _observe(state: State, ctx: BranchContext[Any], parts: Parts) -> State:
    for part in parts.observe:
        state = await part(state, ctx)
    return state


async def linear(state: State, ctx: BranchContext[Any], parts: Parts) -> State:
    """Step after step until there is a result; the last allowed step must give it."""
    while not state.is_over:
        state = await step(state, ctx, parts)
        ctx.partial = _so_far(state)
    return state


def _so_far(state: State) -> JsonValue:
    return {"steps": state.step, "memory": state.memory, "next_goal": state.next_goal}


# -- rivals: beam, best of several runs --------------------------------------------------------------------------------

PROPOSAL = Outcome.of(
    "Proposed: it cannot be taken back, so it is carried out only if this candidate is chosen.",
    usage=NO_USAGE,
    trust=Trust.SYSTEM,
)
"""Stands for the result of a call that was held back, in what is chosen from."""


@dataclass(frozen=True)
class Rival:
    """One of several courses of the same work: a step, or a whole run, on a branch and in a world of its own.

    Attributes:
        state: the state it came to; of a call that was held back it holds PROPOSED as the result.
        before: the state it began with.
        decision: of its step; None for a whole run, and for work that had ended before.
        results: of the decision's calls, None for those that were held back.
        lessons: messages that whoever chooses puts before its next step.
    """

    state: State
    ctx: BranchContext[Any]
    before: State
    decision: Decision | None = None
    results: tuple[Outcome | None, ...] = ()
    lessons: tuple[Message, ...] = ()

    @property
    def is_held(self) -> bool:
        return None in self.results

    @property
    def came(self) -> bool:
        """Return False if its step came to nothing: the budget or the model's provider refused the request."""
        decision = self.decision
        return decision is None or not (decision.shortage or (decision.message is None and not decision.calls))


Choose = Callable[[Sequence[Rival], BranchContext[Any]], Awaitable[Sequence[Rival]]]
"""Ranks rivals, the best first; it may ask models, on the branch of the work that they are rivals for."""


async def beam(
    state: State, ctx: BranchContext[Any], parts: Parts, *, choose: Choose, width: int = 1, candidates: int = 3
) -> State:
    """Rival steps, the best kept: width 1 is best-of-N per step, more is a beam (004, sec. 3.2.3).

    Calls that only look, and those whose effects stay in their world, are carried out in each candidate. All others,
    and sub-agents, are chosen as proposals and carried out once, for the winner. Where the budget refuses some
    candidates there are fewer from then on, as many from each kept state; where none comes to anything, the step is
    taken as without rivals.

    Args:
        state: where to begin.
        ctx: the branch; candidates get branches and worlds of their own, the winner's state is adopted.
        choose: ranks the candidates of a step.
        width: states kept after each step; one alone where the winner's calls were held back.
        candidates: proposals made from each kept state.

    Raises:
        UsageError: for a width or number under 1.
    """
    if width < 1 or candidates < 1:
        raise UsageError(f"a beam of width {width} with {candidates} candidates is empty; both must be at least 1")
    front = [Rival(state, ctx, state)]
    while not all(rival.state.is_over for rival in front):
        going_on = sum(not rival.state.is_over for rival in front)
        rivals = await _round(front, ctx, parts, candidates)
        came = [usable for usable in rivals if usable.came]
        if came:
            ranking = [*await choose(came, ctx)]
            best = ranking[:1] if ranking[0].is_held else [rival for rival in ranking if not rival.is_held][:width]
            front = [await _alone(best[0], ctx, parts)] if len(best) == 1 else [_continue(rival) for rival in best]
        else:  # without rivals, too
            front = [_continue(rivals[0])]
        if any(rival.decision is not None and rival.decision.shortage for rival in rivals):
            candidates = max(1, sum(rival.decision is not None for rival in came) // going_on)
        ctx.partial = _so_far(front[0].state)
    await ctx.adopt(front[0].ctx)
    return front[0].state


async def best_of(
    state: State,
    ctx: BranchContext[Any],
    drive: Callable[[State, BranchContext[Any]], Awaitable[State]],
    *,
    choose: Choose,
    runs: int,
) -> State:
    """Whole runs beside each other, the best kept with its world (004, sec. 3.2.3).

    Each has an equal part of what the budgets leave. What cannot be taken back is refused in all of them.

    Args:
        state: where each begins.
        ctx: the branch; runs get branches and worlds of their own, the winner's state is adopted.
        drive: does the whole work, from a state to an ended one.
        choose: ranks the ended runs.
        runs: how many.
    """
    branches = ctx.candidates(runs)
    shares = ctx.node.shares([branch.branch for branch in branches], ctx.run.ledger.spent_under)
    for branch, share in zip(branches, shares, strict=True):
        branch.node = share

    async def whole(index: int) -> Rival:
        before = state.model_copy(update={"candidate": f"{index + 1}/{runs}"})
        return Rival(await drive(before, branches[index]), branches[index], before)

    best, *_ = await choose(await ctx.rivals([partial(whole, index) for index in range(runs)]), ctx)
    await ctx.adopt(best.ctx)
    return best.state


async def _round(front: Sequence[Rival], ctx: BranchContext[Any], parts: Parts, candidates: int) -> list[Rival]:
    """Make one step of candidates from each kept state; one that has ended is a rival as it is.

    The candidates of a state see the same, so it is looked at once. Where none comes to anything, the best state's step
    is taken as without rivals.
    """
    going_on = [rival for rival in front if not rival.state.is_over]
    views = await ctx.rivals([partial(_view, rival.state, rival.ctx, parts) for rival in going_on])
    rows: list[tuple[int, Rival, list[Seen]]] = []
    for parent, view in zip(going_on, views, strict=True):
        count = 1 if parent.state.shortage else candidates  # the last answer is asked for once
        branches = parent.ctx.candidates(count) if count > 1 else [parent.ctx]
        for index, branch in enumerate(branches):
            label = f"{index + 1}/{count}" if count > 1 else ""
            before = parent.state.model_copy(update={"candidate": label})
            rows.append((index, Rival(before, branch, before), view))
    # The first candidates of all states come before any second one, so that a short budget cuts them evenly.
    rows.sort(key=lambda row: row[0])
    stepping = await ctx.rivals([partial(_take_step, rival, view, ctx, parts) for _, rival, view in rows])
    over = [rival for rival in front if rival.state.is_over]
    if over or any(rival.came or rival.ctx is ctx for rival in stepping):
        return [*over, *stepping]
    best = going_on[0]
    await ctx.adopt(best.ctx)
    return [await _take_step(Rival(best.state, ctx, best.state), views[0], ctx, parts)]


async def _take_step(rival: Rival, view: list[Seen], ctx: BranchContext[Any], parts: Parts) -> Rival:
    """Take a candidate's step; what only the winner may do is held back."""
    decision = await parts.decide(rival.state, view, rival.ctx)
    later = _held_back(decision.calls, rival.ctx) if rival.ctx is not ctx else frozenset()
    outcomes = iter(await rival.ctx.perform_all([c for i, c in enumerate(decision.calls) if i not in later]))
    results = tuple(None if index in later else next(outcomes) for index in range(len(decision.calls)))
    state = rival.state.add(decision, [outcome or PROPOSAL for outcome in results])
    if not later:
        state = await _observe(state, rival.ctx, parts)
    return replace(rival, state=state, decision=decision, results=results)


def _held_back(calls: Sequence[Effect], ctx: BranchContext[Any]) -> frozenset[int]:
    """Return the places of the calls that are for the winner alone, and of what comes after them on their instance."""
    places: set[int] = set()
    instances: set[str] = set()
    for index, effect in enumerate(calls):
        if effect.instance in instances or _for_the_winner(effect, ctx):
            places.add(index)
            instances |= {effect.instance} if effect.instance else set()
    return frozenset(places)


def _for_the_winner(effect: Effect, ctx: BranchContext[Any]) -> bool:
    if effect.kind is EffectKind.RUN_CODE and effect.purpose != "final":
        functions = ctx.agent.may_call(ctx) if ctx.agent is not None else ()
        return any(_one_way(function, ctx) for function in functions)
    return effect.invalid is None and _one_way(effect, ctx)


def _one_way(effect: Effect, ctx: BranchContext[Any]) -> bool:
    return effect.kind in OF_AGENTS or effect.purpose == DELEGATION or not may_be_tried(ctx.run, effect)


async def _alone(rival: Rival, ctx: BranchContext[Any], parts: Parts) -> Rival:
    """Go on with the one rival that is kept: its world is the work's, and what was held back is done now."""
    await ctx.adopt(rival.ctx)
    if rival.is_held and rival.decision is not None:
        places = [index for index, outcome in enumerate(rival.results) if outcome is None]
        done = await ctx.perform_all([rival.decision.calls[index] for index in places])
        late = dict(zip(places, done, strict=True))
        results = [outcome if outcome is not None else late[index] for index, outcome in enumerate(rival.results)]
        state = rival.before.add(rival.decision, results).model_copy(update={"rewards": rival.state.rewards})
        rival = replace(rival, state=await _observe(state, ctx, parts))
    return replace(_continue(rival), ctx=ctx)


def _continue(rival: Rival) -> Rival:
    """Return a rival that is gone on with: its lessons stand before its next step."""
    messages = rival.state.messages + rival.lessons
    state = rival.state.model_copy(update={"messages": messages, "candidate": ""})
    return Rival(state, rival.ctx, state)


# -- parts for perceive ------------------------------------------------------------------------------------------------


async def inbox(state: State, ctx: BranchContext[Any]) -> Seen | None:
    """Return what was told to a running task since the last step: a Receive, recorded even if empty."""
    outcome = await ctx.perform(Effect(kind=EffectKind.RECEIVE, component="inbox@1.0.0", mode=Mode.PURE, role=ctx.role))
    texts = outcome.value if isinstance(outcome.value, list) else []
    if not texts:
        return None
    blocks = tuple(
        TextBlock(text=str(text), source=Source(kind="human", ref="tell"), trust=Trust.USER) for text in texts
    )
    return Seen(blocks=blocks, keep=True)


def environment_state(component: str, instance: str | None = None) -> Perceive:
    async def part(state: State, ctx: BranchContext[Any]) -> Seen | None:
        name = component.rpartition("@")[0] or component
        outcome = await ctx.perform(
            Effect(
                kind=EffectKind.INVOKE_ACTION,
                component=component,
                arguments={"action": "state"},
                mode=Mode.REPEATABLE,
                instance=instance or name,
                role=ctx.role,
            )
        )
        source = Source(kind="environment", ref=name)
        if outcome.status == "ok":
            return Seen(blocks=outcome.blocks(source))
        # Said once by whoever hears it first, so it has to stay in view.
        note = TextBlock(text=f"{name}: {outcome.error}", source=source, trust=outcome.trust)
        return Seen(blocks=(note,), keep=outcome.status == "environment_lost")

    return part
