"""Programs in the sandbox, as a run sees them: what goes in and out, and how a program's calls go through the door.

A program is a dialogue of effects. RunCode starts it and ends with its first call of a tool or with its end; the call
is an effect of its own, with its own budget, policy and record; the next RunCode gives the program the result and goes
on. So a replay runs nothing: each part is in the log. After a crash the program is started again and given the recorded
results of the calls it made, which it must make again in the same order; a call is never made twice. Files that it
leaves in its working folder stay for later programs: they are artifacts, which the run's state names.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from pydantic import JsonValue

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import ArtifactRef, Effect, Mode, Outcome, Tag, failed
from agentorchestra.core.errors import SandboxUnavailableError, ToolError
from agentorchestra.core.protocols import BaseHandler, RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.runtime.worlds import asked_environment
from agentorchestra.sandbox import POSITIONAL, Program, Ran, Sandbox, SandboxLimits
from agentorchestra.sandbox._program import EARLIER, VARIABLES
from agentorchestra.sandbox.output import plain
from agentorchestra.tea.calling.actions import action_effect, tool_result
from agentorchestra.tea.programs.handler import json_value
from agentorchestra.tea.programs.interpreter import Host, ProgramCall
from agentorchestra.tea.programs.interpreter import ProgramRun as Ended

# Makes a program's call (`name`, `arguments`); gives `value`, or `error` and its `type`
Answer = Callable[[RunContext[Any], dict[str, JsonValue]], Awaitable[dict[str, JsonValue]]]
INTERPRETER = "sandbox"
TERMINAL, LOOK = "terminal", "ask_media"
FILE = "file:"  # names of the run's state that hold the files of the working folder
SHOWN_PICTURES = 3
SHOWN_BYTES = 4 << 20
MOST_LINKS = 200  # entries of the task's files that also stand directly in the working folder
_ENDINGS = {
    "time": "it was stopped after its time limit of {seconds:g} s",
    "memory": "it was stopped: {detail}",
    "flood": "it was stopped because it printed more than {flood} MiB",
    "files": "it was stopped: {detail}",
    "lost": "the sandbox ended it: {detail}",
}


@dataclass
class _Live:
    """A program that is under way, between its parts."""

    program: dict[str, JsonValue]  # what is run
    calls: list[dict[str, JsonValue]] = field(default_factory=list)  # the calls it made so far
    answers: list[dict[str, JsonValue]] = field(default_factory=list)  # what they gave
    task: asyncio.Task[Ran] | None = None
    requests: asyncio.Queue[tuple[dict[str, JsonValue], asyncio.Future[dict[str, JsonValue]]]] = field(
        default_factory=asyncio.Queue
    )
    open_call: asyncio.Future[dict[str, JsonValue]] | None = None
    part: int = 0

    async def call(self, name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        """Be what the sandbox calls: wait for the answer that a later part brings."""
        future: asyncio.Future[dict[str, JsonValue]] = asyncio.get_running_loop().create_future()
        await self.requests.put(({"name": name, "arguments": arguments}, future))
        answer = await future
        if answer.get("error") is not None:
            raise (TypeError if answer.get("type") == "TypeError" else ToolError)(str(answer["error"]))
        return answer.get("value")

    async def next(self) -> dict[str, JsonValue] | Ran:
        assert self.task is not None
        waiting = asyncio.create_task(self.requests.get())
        try:
            await asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                request, self.open_call = waiting.result()
                return request
            return self.task.result()
        finally:
            waiting.cancel()

    def answer(self, answer: dict[str, JsonValue]) -> None:
        assert self.open_call is not None
        self.open_call.set_result(answer)
        self.open_call = None

    async def end(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


class Workbench(BaseHandler):
    """Runs programs for tools, in a sandbox (None where the settings want none); the handler of RunCode there."""

    def __init__(self, sandbox: Sandbox | None, limits: SandboxLimits | None = None, *, network: bool = False) -> None:
        self.sandbox = sandbox
        self.limits = limits or SandboxLimits()
        self.network = network
        self._live: dict[tuple[str, str], _Live] = {}

    # -- the handler -------------------------------------------------------------------------------------------------

    def mode(self, effect: Effect) -> Mode:
        """Return REPEATABLE: without a network a program touches nothing outside; ONCE with one."""
        return Mode.ONCE if Tag.NETWORK in effect.tags else Mode.REPEATABLE

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Run a program's next part: up to its next call of a tool, or to its end."""
        live = self._live.get((ctx.run_id, str(ctx.parent.key)))
        if live is None:
            return failed("error", "a part of a program cannot be run by itself")
        part = int(str(effect.arguments.get("part", 0)))
        try:
            if live.task is None or live.part != part:
                problem = await self._start(live, effect, part, ctx)
                if problem:
                    return failed("error", problem)
            if part:
                live.answer(live.answers[part - 1])
            came = await live.next()
        except SandboxUnavailableError as exc:
            return failed("error", str(exc), error_type=type(exc).__name__)
        live.part = part + 1
        trust = self._trust(live, effect, ctx)
        if isinstance(came, Ran):
            return await _outcome_of(came, ctx, trust)
        return Outcome(value={"call": came}, trust=trust)

    def _trust(self, live: _Live, effect: Effect, ctx: Any) -> Trust:
        """Return the trust of a program's result: of its text and what was seen, without files and network."""
        files = bool(live.program.get("files")) or bool(ctx.manifest.files)
        safe = self.sandbox is not None and self.sandbox.safe
        if files or not safe or Tag.NETWORK in effect.tags:
            return Trust.UNTRUSTED
        return lowest(effect.lowest_trust, Trust.AGENT)

    async def _start(self, live: _Live, effect: Effect, part: int, ctx: Any) -> str:
        """Start the program and bring it to where this part begins; return what is wrong, "" if nothing is."""
        await live.end()
        live.requests = asyncio.Queue()
        if self.sandbox is None:
            raise SandboxUnavailableError('this workspace has no sandbox (sandbox.backend = "none" in its settings)')
        program = await self._program(live.program, ctx, network=Tag.NETWORK in effect.tags)
        live.task = asyncio.create_task(self.sandbox.run(program, self._limits(live.program), call=live.call))
        for index in range(part):
            came = await live.next()
            if isinstance(came, Ran) or came != live.calls[index]:
                return (
                    "the program was interrupted and started again, and did not make the same calls as before "
                    f"(call {index + 1} was {live.calls[index]['name']}); run it again as a new one"
                )
            if index < part - 1:
                live.answer(live.answers[index])
        return ""

    def _limits(self, arguments: dict[str, JsonValue]) -> SandboxLimits:
        seconds = arguments.get("seconds")
        if not isinstance(seconds, int | float):
            return self.limits
        return replace(self.limits, seconds=min(float(seconds), self.limits.seconds))

    async def _program(self, arguments: dict[str, JsonValue], ctx: Any, *, network: bool) -> Program:
        contents: dict[str, bytes] = {}
        files = arguments.get("files")
        for name, sha256 in (files if isinstance(files, dict) else {}).items():
            contents[name] = await ctx.read_artifact(ArtifactRef(name=name, sha256=str(sha256), size=0))
        variables, earlier = arguments.get("variables"), arguments.get("earlier")
        if isinstance(variables, str):
            contents[VARIABLES] = await ctx.blob(variables) if variables else b""
        if isinstance(earlier, str):
            contents[EARLIER] = earlier.encode()
        tops = list(dict.fromkeys(file.name.split("/")[0] for file in ctx.manifest.files))
        functions = _names(arguments.get("functions"))
        return Program(
            language="bash" if arguments.get("language") == "bash" else "python",
            code=str(arguments.get("code", "")),
            folder=ctx.folder / "files" if tops else None,
            names=tuple(name for name in tops[:MOST_LINKS] if name not in contents),
            kept=contents,
            tools=(*_names(arguments.get("tools")), *functions),
            functions=functions,
            network=network,
            seed=int(str(arguments.get("seed", 0))),
        )

    # -- for the tools -----------------------------------------------------------------------------------------------

    async def run(
        self,
        ctx: RunContext[Any],
        language: Literal["python", "bash"],
        code: str,
        tools: Sequence[str] = (),
        *,
        functions: Sequence[str] = (),
        answer: Answer | None = None,
        seconds: float | None = None,
        variables: str | None = None,
        earlier: str | None = None,
    ) -> Outcome:
        """Run a program to its end, its calls through the door; return the outcome of its last part.

        `tools` and plain `functions` may be called; `answer` makes the calls, by default of tools. `variables` is the
        blob of those it sees, "" for none yet; the outcome's value then has the blob of its own; None keeps none.
        `earlier` are programs to run before it in silence, for what they assign (`_program.py`).
        """
        slot = (ctx.run_id, str(ctx.key))
        files: dict[str, JsonValue] = {
            name.removeprefix(FILE): str(value["sha256"])
            for name, value in ctx.vars.items()
            if name.startswith(FILE) and isinstance(value, dict)
        }
        program: dict[str, JsonValue] = {"language": language, "code": code, "seed": ctx.random.getrandbits(31)}
        program |= {"files": files, "tools": list(tools), "functions": list(functions)}
        optional = {"seconds": seconds, "variables": variables, "earlier": earlier}
        program |= {name: value for name, value in optional.items() if value is not None}
        live = self._live[slot] = _Live(program)
        # Without a sandbox a program reaches whatever its user does: it is judged like one with a network.
        open_ = self.network or (self.sandbox is not None and not self.sandbox.safe)
        tags = frozenset({Tag.NETWORK}) if open_ else frozenset[Tag]()
        mode = Mode.ONCE if open_ else Mode.REPEATABLE
        part = 0
        try:
            while True:
                arguments: dict[str, JsonValue] = {**program, "part": 0} if part == 0 else {"part": part}
                outcome = await ctx.run_code(INTERPRETER, arguments, mode=mode, tags=tags)
                request = outcome.value.get("call") if outcome.ok and isinstance(outcome.value, dict) else None
                if not isinstance(request, dict):
                    _keep_files(ctx, outcome)
                    return outcome
                live.calls.append(request)
                live.answers.append(await (answer or _call)(ctx, request))
                part += 1
        finally:
            del self._live[slot]
            await live.end()

    def result(self, outcome: Outcome, ctx: RunContext[Any]) -> ToolResult:
        """Return what a model sees of a program, from the outcome of its last part; ToolError without a result."""
        if not outcome.ok or not isinstance(outcome.value, dict):
            raise ToolError(outcome.error or "the program gave no result")
        value = outcome.value
        lines = []
        if self.sandbox is not None and not self.sandbox.safe:
            lines.append("[run without a sandbox]")
        for name in ("stdout", "stderr"):
            output = str(value.get(name) or "")
            if text := plain(output, len(output.encode(errors="replace"))):
                lines.append(text if name == "stdout" else f"[stderr]\n{text}")
        lines += self.ending(value)
        lines += self.about_files(outcome)
        refs = outcome.artifacts
        pictures = [ref for ref in refs if ref.media_type.startswith("image/") and ref.size <= SHOWN_BYTES]
        if pictures and ctx.manifest.programs and LOOK in (ctx.capabilities or {LOOK}):
            pictures = []  # each costs a thousand tokens and more
            lines.append(f"[{LOOK} looks at pictures]")
        text = "\n".join(lines) or "(no output)"
        blocks: list[Block] = [TextBlock(text=text, trust=Trust.UNTRUSTED)]  # its source is the tool
        for ref in pictures[:SHOWN_PICTURES]:
            source = Source(kind="tool", ref=ref.name)
            blocks.append(
                MediaBlock(sha256=ref.sha256, media_type=ref.media_type, name=ref.name, size=ref.size, source=source)
            )
        return ToolResult(content=blocks, trust=Trust.UNTRUSTED)

    def about_files(self, outcome: Outcome) -> list[str]:
        """Return lines on what became of the files in the working folder."""
        value = outcome.value if isinstance(outcome.value, dict) else {}
        lines = []
        if outcome.artifacts:
            names = ", ".join(f"{ref.name} ({ref.size:,} bytes)" for ref in outcome.artifacts)
            lines.append(f"[files kept for later calls: {names}]")
        removed, notes = value.get("removed"), value.get("notes")
        if isinstance(removed, list) and removed:
            lines.append(f"[files removed: {', '.join(str(name) for name in removed)}]")
        return lines + [f"[{text}]" for text in (notes if isinstance(notes, list) else [])]

    def ending(self, value: dict[str, JsonValue]) -> list[str]:
        """Return a line on how a program ended, none for one that ended well."""
        ending, code = str(value.get("ending")), value.get("exit_code")
        if ending in _ENDINGS:
            detail = str(value.get("detail") or "")
            flood = self.limits.flood_bytes >> 20
            return [f"[{_ENDINGS[ending].format(seconds=self.limits.seconds, detail=detail, flood=flood)}]"]
        if isinstance(code, int) and code < 0:
            return [f"[ended by signal {-code}]"]
        return [f"[exit code {code}]"] if code else []

    async def aclose(self) -> None:
        for live in list(self._live.values()):
            await live.end()
        if self.sandbox is not None:
            await self.sandbox.aclose()


def _names(value: JsonValue) -> tuple[str, ...]:
    return tuple(str(name) for name in value) if isinstance(value, list) else ()


async def _call(ctx: RunContext[Any], request: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Make a program's call through the door."""
    arguments = request.get("arguments")
    outcome = await ctx.call_tool(str(request.get("name")), **(arguments if isinstance(arguments, dict) else {}))
    return {"value": json_value(outcome)} if outcome.ok else {"error": outcome.error or f"it ended as {outcome.status}"}


async def _outcome_of(end: Ran, ctx: Any, trust: Trust) -> Outcome:
    """Return a program's end as an outcome; its files as artifacts."""
    refs = []
    variables: bytes | None = None
    for name, data in sorted(end.made.items()):
        if name == VARIABLES:
            variables = data
            continue
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        refs.append(await ctx.artifact(name, data, media_type))
    value: dict[str, JsonValue] = {
        "ending": end.ending,
        "exit_code": end.exit_code,
        "stdout": end.stdout,
        "stderr": end.stderr,
        "removed": [name for name in end.removed if name not in (VARIABLES, EARLIER)],
        "notes": list(end.notes),
        "detail": end.detail,
        "peak_bytes": end.peak_bytes,
    }
    if variables is not None:
        value["variables"] = await ctx.run.services.store.put_blob(variables)
    return Outcome(value=value, artifacts=tuple(refs), trust=trust)


def _keep_files(ctx: RunContext[Any], outcome: Outcome) -> None:
    """Set in the run's state which files the working folder holds after a program."""
    for ref in outcome.artifacts:
        ctx.vars[FILE + ref.name] = {"sha256": ref.sha256, "size": ref.size}
    removed = outcome.value.get("removed") if outcome.ok and isinstance(outcome.value, dict) else None
    for name in removed if isinstance(removed, list) else []:
        ctx.vars.pop(f"{FILE}{name}", None)


async def in_terminal(ctx: Any, command: str) -> ToolResult:
    """Run a command as the agent's terminal does: in its folder, in turn with its commands, judged and kept as they."""
    terminal = asked_environment(ctx.run, TERMINAL)
    effect = action_effect(terminal, "run", {"command": command}, role=ctx.role, provenance=ctx.provenance)
    return tool_result(await ctx.perform(effect.model_copy(update={"purpose": "code"})))


def has_terminal(ctx: RunContext[Any]) -> bool:
    """Return True where programs work in the folder of a terminal, which their agent has."""
    return bool(ctx.manifest.programs) and TERMINAL in (ctx.capabilities or ())


class _Over(Exception):
    """The program has said that it is done."""


class SandboxInterpreter:
    """Programs as decisions (code as action), in the sandbox; from one to the next files are kept, no variables."""

    name = "the sandbox"

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench

    def lacks(self, code: str) -> str | None:
        """Return what it lacks: nothing, except where there is no sandbox."""
        return None if self._workbench.sandbox is not None else "a backend (sandbox.backend is none)"

    async def run(self, code: str, host: Host, *, now: datetime, seed: int, state: bytes | None = None) -> Ended:
        """Run a program; what it calls are the host's effects, recorded between its parts."""
        ctx = host.ctx
        call_count = 0

        async def answer(_: RunContext[Any], request: dict[str, JsonValue]) -> dict[str, JsonValue]:
            nonlocal call_count
            call_count += 1
            arguments = request.get("arguments")
            keywords = dict(arguments) if isinstance(arguments, dict) else {}
            first = keywords.pop(POSITIONAL, [])
            call = ProgramCall(str(request.get("name")), tuple(first) if isinstance(first, list) else (), keywords)
            (reply,) = await host.calls([call])
            if reply.kind == "SystemExit":
                raise _Over
            return {"value": reply.value} if reply.error is None else {"error": reply.error, "type": reply.kind}

        try:
            outcome = await self._workbench.run(ctx, "python", code, functions=sorted(host.names), answer=answer)
        except _Over:
            return Ended()
        if not outcome.ok or not isinstance(outcome.value, dict):
            return Ended(error=outcome.error or "the program gave no result")
        value = outcome.value
        host.print(str(value.get("stdout") or ""))
        lines = self._workbench.about_files(outcome)
        errors = [str(value.get("stderr") or "").strip(), *self._workbench.ending(value)]
        error = "\n".join(line for line in errors if line)
        failed_ = value.get("ending") != "exited" or value.get("exit_code") != 0
        host.print("".join(f"{line}\n" for line in ([] if failed_ else errors[:1]) + lines if line))
        return Ended(error=error if failed_ else None)

    async def aclose(self) -> None:
        """Do nothing: the workbench is closed with the workspace's tools."""
