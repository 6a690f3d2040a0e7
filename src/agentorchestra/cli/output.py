"""Printing: results on stdout, everything else on stderr; a reader that went away is no error."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:  # every way in imports this module: `--help` has no need of pydantic
    from datetime import datetime

    from agentorchestra.core.budget import Usage
    from agentorchestra.core.spec import Question, RunResult
    from agentorchestra.workspace.task_folder import TaskVerdict

WORKSPACE_VARIABLE = "AGENTORCHESTRA_WORKSPACE"

# Everything that moves the cursor, changes the terminal, or shows text in another order than it is written in (an
# address in a question would read as another one); newline and tab stay.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_DIFF_COLOURS = {"+": "32", "-": "31", "@": "36"}


class UnwritableError(Exception):
    """Standard output cannot be written, for another reason than that nobody reads it any more."""


def clean(text: str) -> str:
    """Text for a terminal: what models, files and servers wrote must not steer it."""
    return CONTROL.sub("", text)


def one_line(text: str, width: int = 160) -> str:
    return cut_line(" ".join(text.split()), width)


def cut_line(line: str, width: int = 160) -> str:
    """Return a line with at most `width` characters; its indentation stays."""
    line = clean(line.expandtabs())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def colour_line(line: str, stream: TextIO, colour: str = "") -> str:
    """Return a line, cleaned, in a colour at a terminal: by default that of its sign in a diff."""
    line, colour = clean(line), colour or _DIFF_COLOURS.get(line[:1], "")
    return f"\x1b[{colour}m{line}\x1b[0m" if colour and stream.isatty() and "NO_COLOR" not in os.environ else line


def say(line: str, *, red: bool = False, diff: bool = False) -> None:
    """Print a line for the person at the terminal, on stderr, in red or as a line of a diff where it has colours."""
    line = colour_line(line, sys.stderr, "1;31" if red else "") if red or diff else clean(line)
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        _silence(sys.stderr)


def emit(text: str) -> bool:
    """Print a result on stdout; return False if nobody reads any more.

    Raises:
        UnwritableError: if it cannot be written although somebody may read it (a full disk).
    """
    return _emit(lambda: sys.stdout.write(f"{text}\n"), "the run itself")


def emit_bytes(data: bytes) -> bool:
    """Print bytes as they are; see `emit`."""
    return _emit(lambda: sys.stdout.buffer.write(data), "what was asked for")


def _emit(write: Callable[[], object], noun: str) -> bool:
    try:
        sys.stdout.flush()
        write()
        sys.stdout.flush()
        return True
    except BrokenPipeError:
        _silence(sys.stdout)
        return False
    except (OSError, ValueError) as exc:
        terminal = _is_terminal(sys.stdout)
        _silence(sys.stdout)
        codes = (errno.EPIPE, errno.EBADF, *((errno.EIO,) if terminal else ()))
        if isinstance(exc, OSError) and exc.errno in codes:
            return False
        raise UnwritableError(f"standard output cannot be written: {exc}; {noun} is in the log") from None


def _is_terminal(stream: TextIO) -> bool:
    """Return True for a terminal, also for one that is gone (`isatty` denies that)."""
    try:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _silence(stream: TextIO) -> None:
    # What is still in the buffer would be written, and fail again, when the interpreter ends.
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, stream.fileno())
        os.close(sink)
    except (OSError, ValueError):
        return  # a stream without a descriptor has nothing to flush


def emit_json(value: Any, *, indent: int | None = 2) -> bool:
    """Print one JSON value, in which models may be, on stdout; return False if nobody reads any more."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(value, ensure_ascii=plain, indent=indent, default=lambda model: model.model_dump(mode="json"))
    # The same value: JSON itself escapes only some of the characters that steer a terminal.
    return emit(CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text))


def emit_either(as_json: bool, about: Any, text: str | Iterable[str]) -> bool:
    """Print what a command did: JSON with `--json`, else the text or the lines; return False if nobody reads any more.

    Where there is no line, nothing is printed.
    """
    text = text if isinstance(text, str) or as_json else "\n".join(text)
    return emit_json(about) if as_json else not text or emit(clean(str(text)))


def number(count: int) -> str:
    """1,234."""
    return f"{count:,}"


def dollars(cost: float | None) -> str:
    """Return the cost in US dollars, `unknown` without a price."""
    if cost is None:
        return "cost unknown"
    return f"${cost:.4f}" if cost else "$0"


def bill(usage: Usage) -> str:
    """Return what was paid, and apart from it what attempts without an answer may have cost."""
    return dollars(usage.cost_usd) + (f", {unknown}" if (unknown := unknown_cost(usage)) else "")


def unknown_cost(usage: Usage) -> str:
    """Return what attempts that brought no answer may have cost at most; "" where there are none."""
    if not usage.uncertain:
        return ""
    tokens = plural(usage.uncertain_tokens, "token")
    most = tokens if not usage.uncertain_usd else f"${usage.uncertain_usd:.4f} ({tokens})"
    return f"unknown, at most {most}"


def plural(count: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def table(head: list[str] | None, rows: list[list[str]], *, words: int = 1) -> list[str]:
    """Return columns, under their names if there are any: the first `words` to the left, figures to the right."""
    from rich.cells import cell_len

    rows = rows if head is None else [head, *rows]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for n, (cell, width) in enumerate(zip(row, widths, strict=True)):
            blank = " " * (width - cell_len(cell))
            cells.append(cell + blank if n < words else blank + cell)
        lines.append("  ".join(cells).rstrip())
    return lines


def command(words: str, run_id: str, folder: Path) -> str:
    """Return a command to copy, with the workspace where it is not the one that would be found without."""
    from agentorchestra.workspace import DEFAULT_FOLDER

    if folder == Path(os.environ.get(WORKSPACE_VARIABLE) or DEFAULT_FOLDER):
        return f"agentorchestra {words} {run_id}"
    return f"agentorchestra {words} {run_id} --workspace {shlex.quote(str(folder))}"


def cached_share(usage: Usage) -> str:
    """Return which part of the input came from the provider's cache, where it reports one."""
    if not usage.cache_read_tokens or not usage.input_tokens:
        return ""
    return f" ({usage.cache_read_tokens / usage.input_tokens:.0%} of the input cached)"


def summary_line(result: RunResult) -> str:
    """Status, run, steps, tokens, cost, seconds."""
    return f"{result.status.value}, {result.run_id}, {spending(result)}"


def spending(result: RunResult) -> str:
    """Steps, tokens, cost, seconds."""
    parts = [
        plural(result.steps, "step"),
        plural(result.usage.tokens, "token") + cached_share(result.usage),
        bill(result.usage),
        f"{result.duration_s:.1f} s",
    ]
    return ", ".join(parts)


class HandedOver(NamedTuple):
    """The result of a run with the paths of its files, and the lines that say where they are."""

    result: RunResult
    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    failed: bool = False  # whether the folder that was named did not get them
    applied: dict[str, Any] | None = None  # what of its changes came into its project


def print_result(
    result: RunResult,
    folder: Path,
    *,
    as_json: bool,
    verdict: TaskVerdict | None = None,
    delivery: HandedOver | None = None,
    quiet: bool = False,
) -> int:
    """Print the answer on stdout, what goes with it and what to do next on stderr; the exit code.

    With the `verdict` on a task's folder, that decides the exit code. What became of the run's files stands last.
    If `quiet`, only the answer and what goes wrong are printed.
    """
    from agentorchestra.core.spec import FINAL, RunStatus, exit_code

    if as_json:
        outcome = None if delivery is None else delivery.applied
        emit_json(as_plain(result, verdict) | ({} if outcome is None else {"applied": outcome}))
    else:
        answer = result.answer_text or (result.report if result.status in FINAL else "")  # of a debate its conclusion
        if sys.stdout.isatty() and sys.stderr.isatty():  # a person reads both as one
            answer = readable_answer(result) or answer
            say("")
        if answer:
            emit(clean(answer))
        if not quiet:
            say("\n".join(["", *account_lines(result, answer), summary_line(result)]))
        if result.tests is not None:
            if not result.tests.passed and result.tests.output:
                say(clean(result.tests.output.rstrip()))
            say(f"{result.tests.why}: {one_line(result.tests.command)}")
    if not (quiet and result.status is RunStatus.COMPLETED):
        for line in next_lines(result, folder, as_json=as_json):
            say(line)
    if verdict is not None and not as_json:
        if not verdict.solved and verdict.output:
            say(clean(verdict.output.rstrip()))
        say(verdict_line(verdict))
    code = exit_code(result.status) if verdict is None else int(not verdict.solved)
    if delivery is None:
        return code
    for line in (*delivery.problems, *(() if as_json or quiet else delivery.lines)):
        say(line)
    return code or int(delivery.failed)


def readable_answer(result: RunResult) -> str:
    """Return the answer, or the report where the answer is a paragraph of it (a debate's is): nobody reads it twice."""
    within = result.answer_text and f"\n{result.answer_text}\n" in f"\n{result.report}\n"
    return result.report if within else result.answer_text


def as_plain(result: RunResult, verdict: TaskVerdict | None) -> dict[str, Any]:
    """Return a result as plain data, with the verdict on its task as `task_folder` where there is one."""
    extra = {} if verdict is None else {"task_folder": verdict.model_dump(mode="json")}
    return result.model_dump(mode="json") | extra


def verdict_line(verdict: TaskVerdict) -> str:
    return clean(f"{'solved' if verdict.solved else 'not solved'}: {verdict.why}")


def account_lines(result: RunResult, answer: str) -> list[str]:
    """Return report, sources and artifacts as lines, each part with an empty line below."""
    lines: list[str] = []
    if result.report and result.report not in (answer, _trouble(result)):
        lines += [result.report, ""]
    # A report that has a list of references has these already.
    text = " ".join(" ".join([answer, *lines]).split()) if result.report else ""
    quotes = {source: " ".join(source.quote.split()) for source in result.sources}
    sources = [source for source, quote in quotes.items() if not (quote and quote in text and source.source in text)]
    if sources:
        lines.append("Sources:")
        for source in sources:
            place = ", ".join(part for part in (source.source, source.place) if part)
            quote = f'"{quotes[source]}" ' if source.quote else ""
            lines.append(f"  {quote}({place})")
        lines.append("")
    if result.artifacts:
        lines.append("Artifacts:")
        lines += [f"  {file.name} ({file.media_type}, {plural(file.size, 'byte')})" for file in result.artifacts]
        lines.append("")
    return lines


def next_lines(result: RunResult, folder: Path, *, as_json: bool = False) -> list[str]:
    """Return what a run waits for or failed by, and the commands that go on from it; fewer beside a JSON object."""
    from agentorchestra.core.spec import FINAL, RunStatus

    lines = question_lines(result.questions, result.run_id, folder)
    if result.status is RunStatus.WAITING:
        if result.until is not None:
            lines.append(until_line(result.until, result.run_id, folder))
        elif not result.questions:
            lines.append(f"the run waits: {result.error or 'nothing is open'}")
        return lines
    trouble = "" if result.status is RunStatus.PAUSED else _trouble(result)
    if trouble:
        lines.append(f"error: {one_line(trouble, 2000)}")
    if result.status not in FINAL and not as_json:
        lines.append(f"to go on: {command('resume', result.run_id, folder)}")
    elif not as_json:
        name = shlex.quote(result.session or result.run_id)
        lines.append(f"to ask further: {command('run --continue', name, folder)} TASK")
    return lines


def _trouble(result: RunResult) -> str:
    """Return why the run did not come to its end; a failed agent says it in its report."""
    return result.error or (result.report if result.status == "failed" else "")


def question_lines(questions: tuple[Question, ...], run_id: str, folder: Path) -> list[str]:
    lines: list[str] = []
    for index, question in enumerate(questions):
        option = f" --question {shlex.quote(question.key)}" if index else ""
        code = f" (code {question.code})" if question.code else ""
        lines.append(f"{question.kind} {question.key}{code}: {question.question}")
        lines += [f"  {line}" for line in argument_lines(question)]
        if question.kind == "approval":
            lines.append(f"to allow it:  {command('approve', run_id, folder)} {question.code}")
            lines.append(f"to refuse it: {command('deny', run_id, folder)}{option} --reason TEXT")
        else:
            lines.append(f"to answer it: {command('answer', run_id, folder)} TEXT{option}")
    return lines


def until_line(until: datetime, run_id: str, folder: Path) -> str:
    return f"the run waits until {local_time(until)}; to go on then: {command('resume', run_id, folder)}"


def local_time(time: datetime) -> str:
    """Return a time as the clock on this machine's wall has it."""
    return f"{time.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def argument_lines(question: Question) -> list[str]:
    from agentorchestra.trust.arguments import argument_rows

    return [
        f"{path} = {value}" + (f" ({trust}: {origin})" if trust else "")
        for path, value, trust, origin in argument_rows(question.details)
    ]
