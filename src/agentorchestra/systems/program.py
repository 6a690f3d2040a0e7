"""A program of the user's as a system: it gets the task, asks models at the run's own address, prints the answer.

    [programs.NAME] command    ─> its own process group, in the run's folder, the task on its standard input
    POST /v1/chat/completions  ─> RequestModel of its agent: budget, log, policy and bill hold as for any other
    what it prints             ─> the answer; exit code, time limit and budget say how it ended

It is no program of an agent: the user named it, so it runs as the user's own process, outside of the sandbox.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentorchestra.agents.forms import limit_status
from agentorchestra.agents.requests import model_of, request_settings, role_of
from agentorchestra.agents.state import agent_state
from agentorchestra.agents.types import Kit
from agentorchestra.core.budget import Usage
from agentorchestra.core.content import Block, MediaBlock, TextBlock, Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Provenance
from agentorchestra.core.errors import (
    BudgetExhaustedError,
    DivergedError,
    HttpRequestError,
    ModelError,
    SettingsError,
    SystemDefinitionError,
)
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, Thought
from agentorchestra.core.protocols import Environment, instance_of
from agentorchestra.core.settings import PLACEHOLDER, ProgramSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.log.folders import world_folder
from agentorchestra.log.ledger import within
from agentorchestra.models.render import render_blocks
from agentorchestra.models.serving.completions import CompletionRequest, Said
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.open_environments import as_grounded
from agentorchestra.runtime.parallel import CONTROL, ReplayEnd
from agentorchestra.runtime.results import cut_result
from agentorchestra.runtime.worlds import lay_ground

KEPT_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""The environment variables that every program gets; others are named in its settings."""

GRACE_S = 2.0  # seconds a program has to end when it is told to, before it is killed
MOST_PRINTED = 10_000_000  # bytes of its output that are kept; the rest is read and dropped
LAST_WORDS = 4_000  # bytes from the end of its standard error that are kept
_LONGEST_VARIABLE = 100_000  # bytes; the system takes no longer ones
_POLL_S = 0.02


@dataclass(frozen=True)
class ProgramSystem:
    """The system: one start of the program does one task."""

    name: str
    settings: ProgramSettings

    @property
    def description(self) -> str:
        return self.settings.description

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Do one task.

        Raises:
            SystemDefinitionError: the program is not there, or cannot be started.
            MissingKeyError: an environment variable that it needs is not set.
            SettingsError: a structured answer is asked for.
        """
        if ctx.run.replaying:
            return _recording(ctx)
        if spec.output_schema is not None:
            raise SettingsError(f"the program {self.name!r} prints a text; leave output_type out")
        secrets = {name: ctx.secret(name) for name in self.settings.env}
        environ = {name: value for name in KEPT_VARIABLES if (value := ctx.run.services.environ.get(name))} | secrets
        ctx.seen.add((_from_outside(self.name),))
        requests = Requests(self.name, spec, ctx, kit)
        task = "\n\n".join([spec.instruction, *([render_blocks(spec.context)] if spec.context else [])])
        folder = world_folder(ctx.folder, ctx.world) / "folder"
        folder.mkdir(parents=True, exist_ok=True)
        ground = _ground(spec, kit)
        if ground is not None:  # what an interrupted start left there would have it ask otherwise
            await lay_ground(ctx.run, ground.name, ctx)
        from agentorchestra.models.serving.server import ServedModel  # with a web server, which few runs need

        async with ServedModel(requests.model, requests.answer) as server:
            ctx.run.redactor.learn(f"key of {self.name}", server.key)
            values = {"task": task, "model": server.model, "base_url": server.base_url, "folder": str(folder)}
            environ |= {
                "OPENAI_BASE_URL": server.base_url,
                "OPENAI_API_KEY": server.key,
                "OPENAI_MODEL": server.model,
                "AGENTORCHESTRA_FILES": str(ctx.folder / "files"),
            }
            if len(task.encode()) < _LONGEST_VARIABLE:
                environ["AGENTORCHESTRA_TASK"] = task
            try:
                process = await self._started([_fill(word, values) for word in self.settings.command], environ, folder)
                ending = await _run(process, task.encode(), requests.over, self.settings.timeout_s)
            finally:
                await requests.close()
        if requests.error is not None:
            raise requests.error
        notice = await requests.keep_folder(ground) if ground is not None else ""
        result = await self._result(ending, requests, ctx)
        return result.model_copy(update={"report": f"{result.report}\n{notice}".strip()}) if notice else result

    async def _started(self, command: list[str], environ: Mapping[str, str], folder: Path) -> Process:
        path = shutil.which(command[0], path=environ.get("PATH"))
        if path is None or (os.sep in command[0] and not Path(command[0]).is_absolute()):
            raise SystemDefinitionError(
                f"the program {command[0]!r} of the system {self.name!r} is not there or may not be run; install it, "
                f"or give its whole path in programs.{self.name}.command"
            )
        try:
            return await asyncio.create_subprocess_exec(
                path,
                *command[1:],
                env=environ,
                cwd=folder,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        except (OSError, ValueError) as exc:
            raise SystemDefinitionError(
                f"the program {command[0]!r} of the system {self.name!r} cannot be started: {exc}; correct "
                f"programs.{self.name}.command"
            ) from None

    async def _result(self, ending: Ended, requests: Requests, ctx: BranchContext[Any]) -> AgentResult:
        if not requests.asked:  # it asked models elsewhere, or none: nobody here knows what that cost
            agent_state(ctx).usage = Usage(cost_usd=None)
        stdout = ending.output.decode("utf-8", "replace").strip()
        answer, artifacts = await cut_result(stdout, self.name, ctx)
        status, report = RunStatus.COMPLETED, ""
        if requests.diverged:
            status, report = RunStatus.BLOCKED, requests.diverged
        elif ending.code is None:
            status = RunStatus.TIMED_OUT
            report = f"{self.name} was ended after its time limit of {self.settings.timeout_s:g} s"
        elif ending.code != 0:
            status = RunStatus.BLOCKED
            report = f"{self.name} ended with the exit code {ending.code}"
        if status is not RunStatus.COMPLETED and (stderr := ending.last_words.decode("utf-8", "replace").strip()):
            report = f"{report}; the end of what it wrote to its standard error:\n{stderr}"
        if requests.limited:
            status = limit_status(requests.limited)
            report = f"{requests.limited}\n{report}".strip()
        return AgentResult(status=status, answer=str(answer), report=report, artifacts=artifacts, steps=requests.count)


def _fill(word: str, values: Mapping[str, str]) -> str:
    """Return a word of a command with the values in place of the placeholders, each taken once."""
    return PLACEHOLDER.sub(lambda match: values[match[1]], word)


def _from_outside(name: str) -> Provenance:
    """Return where all that a program says comes from: nobody knows what it has read."""
    return Provenance(kind="agent", ref=name, trust=Trust.UNTRUSTED)


def _ground(spec: AgentSpec, kit: Kit) -> Environment | None:
    environments = (kit.environments[name]() for name in spec.tools if name in kit.environments)
    return next((environment for environment in environments if as_grounded(environment) is not None), None)


def _recording(ctx: BranchContext[Any]) -> AgentResult:
    """Return what the recording has of a program: a replay starts none. ReplayEnd if it ends before its answer."""
    run = ctx.run
    run.visited.update(key for key in run.ledger.records if within(key.branch, ctx.key.path))
    record = run.ledger.records.get(ctx.key)
    if record is None or record.outcome is None or record.outcome.value is None:
        raise ReplayEnd(str(ctx.key))
    return AgentResult.model_validate(record.outcome.value)


# -- requests ----------------------------------------------------------------------------------------------------------


class Requests:
    """The requests of a program at the run's address, each a RequestModel of its agent, one at a time.

    Args:
        spec, ctx, kit: as its system got them.

    Attributes:
        model: the one model that it may ask.
        over: set when it must be ended.
        asked: whether it has asked anything.
        count: requests that were answered.
        limited: why the budget has no room for more, "" while it has.
        diverged: how a request differs from the recorded one, "" for nothing.
        error: what goes up in its place: it concerns the run.
    """

    def __init__(self, name: str, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> None:
        self.model = model_of(spec, ctx)
        self.over = asyncio.Event()
        self.asked = False
        self.count = 0
        self.limited = self.diverged = ""
        self.error: BaseException | None = None
        self._name, self._spec, self._ctx = name, spec, ctx
        role = role_of(spec.role, ctx)
        self._native, self._settings, self._profile_hash = request_settings(self.model, role, ctx, kit)
        self._turn = asyncio.Lock()  # a branch performs one effect after the other
        self._thoughts: dict[str, tuple[Thought, ...]] = {}
        self._tasks: set[asyncio.Task[ModelResponse]] = set()

    async def answer(self, request: CompletionRequest) -> ModelResponse:
        """Answer one request; HttpRequestError for a misfit (400), a short budget (402), a failed model (502)."""
        self.asked = True
        task = asyncio.create_task(self._in_turn(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await task

    async def close(self) -> None:
        """Stop what is under way: the program has ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def keep_folder(self, ground: Environment) -> str:
        """Record how the folder stands now, for the environments that work on it; return what went wrong, if so."""
        effect = Effect(
            kind=EffectKind.SNAPSHOT,
            component=f"{ground.name}@{ground.version}",
            instance=instance_of(ground),
            mode=Mode.REPEATABLE,
            role=self._spec.role,
        )
        with suppress(HttpRequestError):
            if not self.diverged:
                self._compare(effect)
        if self.diverged:
            return ""
        outcome = await self._ctx.perform(effect)
        return "" if outcome.ok else f"what it did in the folder is not kept: {outcome.error}"

    async def _in_turn(self, request: CompletionRequest) -> ModelResponse:
        effect = await self._effect(request)
        async with self._turn:
            self._refuse_more()
            self._compare(effect)
            try:
                outcome = await self._ctx.perform(effect)
            except CONTROL as exc:
                self.error = exc
                self.over.set()
                status = 402 if isinstance(exc, BudgetExhaustedError) else 502 if isinstance(exc, ModelError) else 503
                raise HttpRequestError(str(exc), status=status) from None
            if outcome.status == "limited":
                self.limited = outcome.error or "the budget is short"
                raise HttpRequestError(self.limited, status=402)
            if not outcome.ok:
                too_long = outcome.error_type == "ModelContextError"
                raise HttpRequestError(outcome.error or outcome.status, status=400 if too_long else 502)
            self.count += 1
        response = outcome.response
        if response.thoughts and response.tool_calls:
            self._thoughts[response.tool_calls[0].id] = response.thoughts
        return response

    def _refuse_more(self) -> None:
        """Refuse a request after the budget or the steps were used up, or the program was to end."""
        if self.over.is_set():
            raise HttpRequestError("the run has ended this program", status=503)
        if not self.limited and self.count >= self._spec.max_steps:
            self.limited = (
                f"{self._name} has made its {self._spec.max_steps} requests (max_steps); give it more with --max-steps"
            )
        if self.limited:
            raise HttpRequestError(self.limited, status=402)

    def _compare(self, effect: Effect) -> None:
        """End a program that was started again and asks otherwise than before: no recorded answer fits any more."""
        ctx = self._ctx
        key = EffectKey(ctx.branch, ctx.last_n + 1)
        record = ctx.run.ledger.records.get(key)
        if record is None:
            return
        try:
            ctx.run.ledger.compare(key, ctx.run.redactor.effect(effect), record)
        except DivergedError as exc:
            self.diverged = (
                f"{self._name} was started again after an interruption and asks otherwise than before, so that what is "
                f"recorded does not fit ({exc}). Have it ask the same for the same task, or start a new run"
            )
            self.over.set()
            raise HttpRequestError(self.diverged, status=503) from None

    async def _effect(self, request: CompletionRequest) -> Effect:
        if request.tools and not self._native:
            raise HttpRequestError(f"the model {self.model!r} takes no tool calls; leave tools out")
        messages = tuple([await self._message(message) for message in request.messages])
        return Effect(
            kind=EffectKind.REQUEST_MODEL,
            component=f"{self.model}@1.0.0",
            content_hash=self._profile_hash,
            request=ModelRequest(
                model=self.model, messages=messages, tools=request.schemas, settings=request.settings(self._settings)
            ),
            mode=Mode.REPEATABLE,
            role=self._spec.role,
            purpose="decision",
            provenance=(_from_outside(self._name),),
        )

    async def _message(self, message: Said) -> Message:
        """Return a message in our form, without secrets; its pictures become blobs."""
        redactor, blocks = self._ctx.run.redactor, list[Block]()
        for part in message.parts:
            if part.image_url is None:
                blocks.append(TextBlock(text=redactor.text(part.text)))
            else:
                media_type, data = part.image_url.data()
                artifact = await self._ctx.artifact("picture", data, media_type)
                blocks.append(MediaBlock(media_type=media_type, sha256=artifact.sha256, size=artifact.size))
        calls = tuple(call.model_copy(update={"arguments": redactor.json(call.arguments)}) for call in message.calls)
        return Message(
            role="system" if message.role == "developer" else message.role,
            content=tuple(blocks),
            tool_calls=calls,
            tool_call_id=message.tool_call_id,
            thoughts=self._thoughts.get(calls[0].id, ()) if calls else (),
        )


# -- process -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code (None for one that was ended), what it printed, its last words."""

    code: int | None
    output: bytes
    last_words: bytes


async def _run(process: Process, task: bytes, over: asyncio.Event, limit_s: float | None) -> Ended:
    """Return how a program ended, of itself or because it had to; nothing of its process group is left."""
    assert process.stdout is not None and process.stderr is not None
    stdout, words = bytearray(), bytearray()
    pipes = [
        asyncio.create_task(_feed(process, task)),
        asyncio.create_task(_read(process.stdout, stdout, first=MOST_PRINTED)),
        asyncio.create_task(_read(process.stderr, words, last=LAST_WORDS)),
    ]
    ends = [asyncio.create_task(_wait_end(process)), asyncio.create_task(over.wait())]
    try:
        await asyncio.wait(ends, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        code = process.returncode
    finally:
        for wait in ends:
            wait.cancel()
        await _end(process)
        await asyncio.wait(pipes, timeout=GRACE_S)  # a process that left the group may hold them
        for pipe in pipes:
            pipe.cancel()
    return Ended(code, bytes(stdout), bytes(words))


async def _feed(process: Process, task: bytes) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError):  # it need not read its task there
        process.stdin.write(task)
        await process.stdin.drain()
    process.stdin.close()


async def _read(stream: asyncio.StreamReader, buffer: bytearray, *, first: int = 0, last: int = 0) -> None:
    while data := await stream.read(65_536):
        buffer += data[: first - len(buffer)] if first else data
        if last:
            del buffer[:-last]


async def _wait_end(process: Process) -> None:
    # Not `process.wait`: that waits for the end of its pipes too, which a program it started may hold.
    while process.returncode is None:  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(_POLL_S)


async def _end(process: Process) -> None:
    """Tell the program to end, then kill whatever is left of its process group."""
    try:
        if process.returncode is None:
            _signal(process, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await _wait_end(process)
    finally:
        _signal(process, signal.SIGKILL)
    await _wait_end(process)


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


_LIBC = ctypes.CDLL(None)


def _die_with_parent() -> None:
    """Have the kernel end the program if this process is killed: nobody could do it then."""
    _LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
