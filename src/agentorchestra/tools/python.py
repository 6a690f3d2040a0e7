"""`python`: snippets in Monty, an interpreter without files, network or environment; the sandbox for what needs more.

Nothing is handed to Monty that reaches outside, its clock stands at the run's time and its chance comes from the run's
seed. So what runs there is pure: executed again after a crash it gives the same result.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import ArtifactRef, Effect, Mode, Outcome, failed
from agentorchestra.core.errors import ToolError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.protocols import BaseHandler, RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.runtime.state import PRIVATE
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tea.programs.handler import MOST_STATE
from agentorchestra.tea.programs.monty import MODULES, lacks
from agentorchestra.tea.programs.processes import MontyPool
from agentorchestra.tea.retrieval.discovery import OPENING
from agentorchestra.tools.workbench import INTERPRETER, TERMINAL, Workbench, has_terminal, in_terminal

MONTY = "monty"  # the interpreter's name as a component
# The variables that an agent's programs left: blobs by the name of the place where they ran.
STATE = f"{PRIVATE}python"
_LONGEST_ERROR = 4_000


@dataclass(frozen=True)
class PythonLimits:
    seconds: float = 10.0  # of computing
    memory: int = 256_000_000  # bytes of its heap
    depth: int = 500  # nested calls
    output_chars: int = 100_000  # characters of output that are kept
    processes: int = 4  # interpreters that run at the same time; further calls wait


class LacksError(ToolError):
    """A program that this interpreter cannot run, or not within its limits; `lacks` says why, a phrase."""

    def __init__(self, message: str, lacks: str) -> None:
        super().__init__(message)
        self.lacks = lacks


@dataclass(frozen=True)
class Fed:
    """The outcome of a program in Monty; `dump` is None where it assigns nothing, or exceeded a limit."""

    output: str  # what it printed, and the value of its last expression
    error: str = ""  # why it failed, with what it printed until then; "" for a program that ran to its end
    dump: bytes | None = None


class PythonTool(BaseHandler):
    """The tool `python`, and its pool of interpreters, started with the first call and closed with the workspace.

    What Monty lacks (files, packages, tools, classes that inherit, more time or memory) runs in the sandbox, and the
    result says why. Both are effects (RunCode): which of them ran is in the log, so a replay runs neither. Variables
    stay from one program of an agent to its next, as blobs that the outcomes name. From the first program that needed
    the sandbox on, all run there; those that ran in Monty before run there once more, for what they assign.
    """

    fixed_mode = Mode.PURE  # nothing reaches outside, the clock and chance are the run's.

    def __init__(self, limits: PythonLimits | None = None, workbench: Workbench | None = None) -> None:
        self._limits = limits or PythonLimits()
        self._workbench = workbench
        self._pool = MontyPool(self._limits.processes)
        self.tool: Tool[..., Any] = self._make()

    def _make(self) -> Tool[..., Any]:
        @tool(effect=("composite", "execute"), sequential=True)
        async def python(ctx: RunContext[Any], code: str) -> ToolResult:
            """Run a Python program: what it prints and the value of its last expression come back.

            Variables and files stay from one call to the next. The task's files are in the working folder. numpy,
            pandas, openpyxl, matplotlib, pypdf, Pillow and scipy are there; tools.NAME(argument=value) calls another of
            your tools. No network.

            Args:
                code: The program.
            """
            return await self._call(ctx, code)

        return python

    async def _call(self, ctx: RunContext[Any], code: str) -> ToolResult:
        memory = ctx.vars.get(STATE)
        state: dict[str, JsonValue] = memory if isinstance(memory, dict) else {}
        if has_terminal(ctx):
            if TERMINAL not in state:
                ctx.vars[STATE] = state = {TERMINAL: ctx.id("python")}
            end, seed = f"END_{sha256_text(code)[:16]}", ctx.random.getrandbits(31)
            memory = f'"$HOME/.{state[TERMINAL]}"'
            run = f'touch {memory}; python3 -B "$AGENTORCHESTRA_PYTHON" {seed} {memory}'
            return await in_terminal(ctx, f"{run} <<'{end}'\n{code}\n{end}")
        reason = "variables of earlier programs are in the sandbox" if INTERPRETER in state else needs(code)
        if not reason:
            outcome = await ctx.run_code(MONTY, {"code": code, **_only(state, MONTY)}, mode=Mode.PURE)
            value = outcome.value if isinstance(outcome.value, dict) else {}
            if MONTY in value:
                ctx.vars[STATE] = _only(value, MONTY)
            if not outcome.ok:
                raise ToolError(outcome.error or "the program gave no result")
            if "printed" in value:
                return ToolResult(content=str(value["printed"]), trust=outcome.trust)
            reason, error = str(value.get("lacks")), str(value.get("error"))
            if self._workbench is None or self._workbench.sandbox is None or await self._workbench.sandbox.problem():
                raise ToolError(error)
        if self._workbench is None:
            raise ToolError(f"{reason}, which needs a sandbox, and there is none here")
        names = sorted((ctx.capabilities or frozenset()) - {"python", "bash", "done", *OPENING})
        variables, earlier = str(state.get(INTERPRETER, "")), None
        if MONTY in state and not variables:
            left = await ctx.read_artifact(ArtifactRef(name=MONTY, sha256=str(state[MONTY]), size=0))
            earlier = _again(_programs(left))
        final = await self._workbench.run(ctx, "python", code, names, variables=variables, earlier=earlier)
        if isinstance(final.value, dict) and isinstance(final.value.get("variables"), str):
            ctx.vars[STATE] = {INTERPRETER: final.value["variables"]}
        return self._workbench.result(final, ctx)

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Return what a program printed; what is lacking for one that cannot run here; an error for one that failed."""
        trust = lowest(effect.lowest_trust, Trust.AGENT)
        code, seed = str(effect.arguments.get("code", "")), ctx.random.getrandbits(32)
        blob = effect.arguments.get(MONTY)
        state = await ctx.blob(blob) if isinstance(blob, str) else b""
        try:
            fed = await self.run(code, now=ctx.now, seed=seed, dump=state.partition(b"\n")[2])
        except LacksError as exc:
            return Outcome(value={"lacks": exc.lacks, "error": str(exc)}, trust=trust)
        except ToolError as exc:
            return failed("error", str(exc), error_type="ToolError", trust=trust)
        left: dict[str, JsonValue] = {}
        if fed.dump is not None and len(fed.dump) <= MOST_STATE:
            programs = json.dumps([*_programs(state), code]).encode()
            left[MONTY] = await ctx.run.services.store.put_blob(programs + b"\n" + fed.dump)
        if fed.error:
            return failed("error", fed.error, error_type="ToolError", trust=trust, value=left or None)
        return Outcome(value={"printed": fed.output, **left}, trust=trust)

    async def run(self, code: str, *, now: datetime, seed: int, dump: bytes = b"") -> Fed:
        """Run a program with its clock at `now` and the variables of `dump`; LacksError for what Monty has not."""
        if not code.strip():
            raise ToolError("the code is empty; give a program, e.g. print(2 + 2)")
        from pydantic_monty import MontyError

        output = _Text(self._limits.output_chars)
        options = {
            "limits": {
                "max_feed_duration_secs": self._limits.seconds,
                "max_memory": self._limits.memory,
                "max_recursion_depth": self._limits.depth,
            },
            "os_policy": {"datetime": now, "sleep": "zero", "random_start": {"seed": seed}},
        }
        error, left = "", None
        lease = await self._pool.take(options)
        try:
            if dump:
                await lease.interpreter.load_session(dump)
            try:
                value = await lease.interpreter.feed_run(code, print_callback=lambda _, text: output.add(text))
                if value is not None:
                    output.add(repr(value))
            except MontyError as exc:
                error = _failure(exc, output.text())
                if lacks := _lacks(error):
                    raise LacksError(error, lacks) from None
            if dump or assigned_names(code):
                left = await lease.interpreter.dump()
        finally:
            await lease.give_back(*sys.exc_info())
        return Fed(output.text().rstrip("\n") or "(no output)", error, left)

    async def aclose(self) -> None:
        await self._pool.aclose()


def _only(state: dict[str, JsonValue], name: str) -> dict[str, JsonValue]:
    return {name: state[name]} if name in state else {}


def _programs(state: bytes) -> list[str]:
    programs: list[str] = json.loads(state.partition(b"\n")[0]) if state else []
    return programs


# Words of programs whose variables may be others when they run again
_CHANCE = re.compile(r"\b(?:random|now|today|utcnow|time|uuid\d?|secrets)\b")


def _again(programs: list[str]) -> str:
    """Return the programs that the sandbox runs again before one that needs it, and the names that it lacks then."""
    sure = [code for code in programs if not _CHANCE.search(code)]
    losses = {name for code in programs if code not in sure for name in assigned_names(code)}
    reason = "it came of chance or of the clock, and programs run in another interpreter from here on"
    return json.dumps({"programs": sure, "lost": dict.fromkeys(sorted(losses), reason)})


def assigned_names(code: str) -> set[str]:
    """Return the names that a program gives a value, as far as its text shows."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return set()
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(name.asname or name.name).partition(".")[0] for name in node.names}
    return names


_SANDBOX_NAMES = frozenset({"tools", "ToolError", "open"})  # names that are there in the sandbox only
_LIMITS = re.compile(r"(?:TimeoutError|MemoryError|RecursionError)\b")
_MISSING = re.compile(r"(?:ModuleNotFoundError|ImportError|NotImplementedError|AttributeError|NameError|TypeError)\b")


def needs(code: str) -> str:
    """Return why a program cannot run in Monty, as far as its text shows; "" if nothing shows it."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if names := sorted(used & _SANDBOX_NAMES):
        return f"it uses {names[0]}"
    missing = lacks(code)
    return f"Monty does not have {missing}" if missing else ""


def _lacks(failure: str) -> str:
    """Return what Monty lacked for a program that failed, "" for a program that would fail anywhere."""
    last = failure.strip().splitlines()[-1] if failure.strip() else ""
    if _LIMITS.match(last):
        return "it needs more time, memory or depth"
    if "not supported" in failure or "not yet support" in failure or _MISSING.match(last):
        return f"Monty has not all of it ({last[:100]})"
    return ""


class _Text:
    """Text up to a number of characters, and how much more there was."""

    def __init__(self, most: int) -> None:
        self._parts: list[str] = []
        self._left = most
        self._dropped = 0

    def add(self, text: str) -> None:
        part = text[: self._left]
        self._left -= len(part)
        self._dropped += len(text) - len(part)
        if part:
            self._parts.append(part)

    def text(self) -> str:
        note = f"\n[{self._dropped:,} further characters left out]" if self._dropped else ""
        return "".join(self._parts) + note


def _failure(error: Any, output: str) -> str:
    """Return the output before the error, the error with its line, and what to do about a part that is missing."""
    message = str(error.display() if hasattr(error, "display") else error).strip()
    hint = ""
    if "No module named" in message:
        hint = f"\nThe modules it has: {MODULES}."
    elif "not yet support" in message or "not supported in this environment" in message:
        hint = "\nThis interpreter lacks that; write it with plain functions, lists, dicts and the values in the code."
    if len(output) > _LONGEST_ERROR:
        output = f"[...]{output[-_LONGEST_ERROR:]}"
    if output and not output.endswith("\n"):
        output = f"{output}\n"
    if len(message) > _LONGEST_ERROR:  # the first line that failed, and what was wrong
        half = _LONGEST_ERROR // 2
        message = f"{message[:half]}\n[...]\n{message[-half:]}"
    return f"{output}{message}{hint}"
