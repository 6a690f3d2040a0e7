"""The handler of RunCode: a program of an agent, whose functions are the tools that the agent may call.

The program itself touches nothing. What it calls are effects of their own on its branch, each through the door; so it
is composite, and entered again after a crash: what it has called already comes from the log (docs/code-action.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust, lowest, without_numbers
from agentorchestra.core.effects import FINISH, Effect, EffectKind, Mode, Outcome, Provenance, blocks_value, failed
from agentorchestra.core.effects import provenance_of as sources_of
from agentorchestra.core.errors import ProgramEndedError
from agentorchestra.core.messages import ToolCall
from agentorchestra.core.protocols import BaseHandler
from agentorchestra.runtime.results import cut_result
from agentorchestra.runtime.state import PRIVATE
from agentorchestra.tea.programs.functions import Functions
from agentorchestra.tea.programs.interpreter import Interpreter, ProgramCall, ProgramRun, Reply
from agentorchestra.tea.programs.monty import MODULES

NAME = "program"
DONE = "done"  # where the value of an outcome has what the finishing tool gave back, whatever that is called
STATE = f"{PRIVATE}program"  # the variables that a program left: the hash of a blob, an agent's own
MOST_CALLS = 200  # calls that one program may make
MOST_PRINTED = 100_000  # characters of output that are kept
FLOOD = 2_000_000  # characters of output that end a program
MOST_STATE = 8_000_000  # bytes of variables that are kept for the next program
_MOST_MEDIA = 8


def program_effect(code: str, *, role: str, provenance: tuple[Provenance, ...], final: bool = False) -> Effect:
    """Return the effect of a program; of a `final` one only `done` may be called."""
    return Effect(
        kind=EffectKind.RUN_CODE,
        component=f"{NAME}@1.0.0",
        arguments={"code": code},
        mode=Mode.COMPOSITE,
        role=role,
        purpose="final" if final else "",
        provenance=provenance,
    )


class ProgramHandler(BaseHandler):
    """Executes RunCode; the first of its interpreters that has what a program needs runs it."""

    fixed_mode = Mode.COMPOSITE  # entered again after a crash

    def __init__(self, interpreters: Sequence[Interpreter]) -> None:
        self._interpreters = tuple(interpreters)

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Run the program; return what it printed, and the answer if it called `done`."""
        agent = None if ctx.parent is None else ctx.parent.agent
        if agent is None or agent.functions is None:
            return failed("mistake", "only an agent runs programs; this one has no functions to call")
        code = str(effect.arguments.get("code", ""))
        ctx.agent = agent
        host = _Host(effect, ctx, agent.functions)
        interpreter, problem = self._choose(code)
        if interpreter is None:
            return await self._outcome(host, ProgramRun(error=problem))
        now, seed = ctx.now, ctx.random.getrandbits(32)
        digest = ctx.vars.get(STATE)
        state = await ctx.blob(digest) if isinstance(digest, str) else None
        try:
            result = await interpreter.run(code, host, now=now, seed=seed, state=state)
        except ProgramEndedError as exc:
            result = ProgramRun(error=str(exc))
        if result.chance:
            host.forget()  # a replay could not come to the same
        note = await self._keep(result, ctx)
        if host.done is not None:
            note = ""
        return await self._outcome(host, result, note)

    def _choose(self, code: str) -> tuple[Interpreter | None, str]:
        """Return the interpreter for a program, decided before any of it has run; else what they all lack."""
        problems = []
        for interpreter in self._interpreters:
            missing = interpreter.lacks(code)
            if missing is None:
                return interpreter, ""
            problems.append(f"{interpreter.name} does not have {missing}")
        return None, (
            f"the program was not started: {'; '.join(problems)}. Write it with functions, lists, dicts and the "
            f"modules that are there: {MODULES}"
        )

    async def _keep(self, result: ProgramRun, ctx: Any) -> str:
        """Keep the program's variables for the next one; a sentence where that is not possible."""
        if result.state is None:
            return "What it assigned to variables was not kept."
        if len(result.state) > MOST_STATE:
            if STATE in ctx.vars:
                del ctx.vars[STATE]
            return f"Variables were not kept: they are more than {MOST_STATE:,} bytes."
        if not ctx.run.replaying:  # then what is recorded holds
            ctx.vars[STATE] = await ctx.run.services.store.put_blob(result.state)
        return ""

    async def _outcome(self, host: _Host, result: ProgramRun, note: str = "") -> Outcome:
        trust = host.trust
        text = host.output(result.value)
        source = Source(kind="tool", ref=NAME)
        empty = "(nothing was printed)" if result.error is None and host.done is None else ""
        output = "\n".join(part for part in (text or empty, note) if part)
        blocks: list[Block] = [TextBlock(text=output, source=source, trust=trust)] if output else []
        value, whole = await cut_result(blocks_value([*blocks, *host.media]), NAME, host.ctx, max_chars=MOST_PRINTED)
        assert isinstance(value, dict)
        value = {**value, "calls": host.count}
        if host.done is not None:
            value[DONE] = host.done
        if result.error is None:
            return Outcome(value=value, trust=trust, artifacts=whole)
        output = f"{result.error}\nWhat it printed before:" if text else result.error
        return failed("error", output, value=value, trust=trust, artifacts=whole)


class _Host:
    """Performs the calls of a program as effects on its branch."""

    def __init__(self, effect: Effect, ctx: Any, functions: Functions) -> None:
        self.ctx = ctx
        self.done: JsonValue = None
        self.count = 0
        self.trust = lowest(effect.lowest_trust, Trust.AGENT)
        self.media: list[Block] = []
        self._functions = functions
        self.names = frozenset([functions.tools.finish]) if effect.purpose == "final" else frozenset(functions.names)
        self._provenance = effect.provenance
        self._printed: list[str] = []
        self._kept = 0
        self._dropped = 0
        self._sure = 0

    def print(self, text: str) -> None:
        if self.done is not None:
            return
        part = text[: MOST_PRINTED - self._kept]
        self._kept += len(part)
        # Output comes in portions of any size: how much more there was must not depend on them.
        self._dropped = min(self._dropped + len(text) - len(part), FLOOD - MOST_PRINTED + 1)
        if part:
            self._printed.append(part)
        if self._kept + self._dropped > FLOOD:
            raise ProgramEndedError(
                f"the program was ended: it printed more than {FLOOD:,} characters. Print what you need to see"
            )

    def output(self, value: str | None = None) -> str:
        note = f"\n[{self._dropped:,} further characters left out]" if self._dropped else ""
        text = "".join(self._printed) + note
        if value is None:
            return text.rstrip("\n")
        return f"{text}{value}" if not text or text.endswith("\n") else f"{text}\n{value}"

    def forget(self) -> None:
        self._printed = ["".join(self._printed)[: self._sure]]
        self._kept = self._sure
        self._dropped = 0

    async def calls(self, calls: Sequence[ProgramCall]) -> list[Reply]:
        """Perform the calls as effects, those made together at the same time."""
        self._sure = self._kept
        self.count += len(calls)
        if self.count > MOST_CALLS:
            raise ProgramEndedError(
                f"the program was ended: it made more than {MOST_CALLS} calls. What it had called before is done; "
                "go on in another program"
            )
        replies: list[Reply | None] = [None] * len(calls)
        effects: list[tuple[int, Effect]] = []
        for index, call in enumerate(calls):
            try:
                arguments = self._functions.arguments(call)
            except TypeError as exc:
                replies[index] = Reply(error=str(exc), kind="TypeError")
                continue
            effects.append((index, self._effect(call, arguments, alone=len(calls) == 1)))
        outcomes = await self.ctx.perform_all([effect for _, effect in effects])
        for (index, effect), outcome in zip(effects, outcomes, strict=True):
            self._saw(effect, outcome)
            if effect.purpose == FINISH and outcome.ok:
                self.done = outcome.value
                return [Reply(error="done", kind="SystemExit")]
            replies[index] = Reply(value=json_value(outcome)) if outcome.ok else Reply(error=_sentence(outcome))
        return [reply for reply in replies if reply is not None]

    def _effect(self, call: ProgramCall, arguments: dict[str, JsonValue], *, alone: bool) -> Effect:
        name = self._functions.tool(call.name)
        tool_call = ToolCall(id=f"call_{self.count}", name=name, arguments=arguments)
        effect = self._functions.tools.effect(tool_call, self.ctx, self._provenance)
        if effect.purpose == FINISH and not alone:
            reason = f"{name}: call it by itself, after everything else has come back"
            return effect.model_copy(update={"invalid": reason})
        return effect

    def _saw(self, effect: Effect, outcome: Outcome) -> None:
        """Count what came back as in view of everything the program does from here on."""
        blocks = outcome.blocks(
            Source(kind="agent" if effect.kind is EffectKind.INVOKE_AGENT else "tool", ref=effect.name)
        )
        self._provenance = tuple(
            sorted({*self._provenance, *sources_of(blocks)}, key=lambda prov: (prov.kind, prov.ref, prov.trust.value))
        )
        self.trust = lowest(self.trust, outcome.trust, *(block.trust for block in blocks))
        if outcome.ok:
            room = _MOST_MEDIA - len(self.media)
            self.media += [block for block in blocks if isinstance(block, MediaBlock)][:room]


def json_value(outcome: Outcome) -> JsonValue:
    """Return what a function returns: the tool's JSON value; of content from files the pieces with their places."""
    value = outcome.value
    if not (isinstance(value, dict) and value.keys() == blocks_value(()).keys()):  # type: ignore[union-attr]
        return value
    pieces: list[JsonValue] = []
    for block in outcome.blocks():
        piece: dict[str, JsonValue] = (
            {"text": without_numbers(block)}
            if isinstance(block, TextBlock)
            else {"text": "", "media": block.media_type, "name": block.name, "size": block.size}
        )
        if block.source is not None:
            piece |= {"source": block.source.ref, "place": block.source.place or ""}
        pieces.append(piece)
    return pieces


def _sentence(outcome: Outcome) -> str:
    return outcome.error or f"it ended as {outcome.status}"
