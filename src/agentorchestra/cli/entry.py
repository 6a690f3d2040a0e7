"""The entry point: every way out of the command line is here.

0 completed, 1 failed, 2 wrong usage, 3 any other end with a status, 130 cancelled. No traceback reaches the user.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import click

from agentorchestra.cli.output import UnwritableError, emit_json, one_line, say
from agentorchestra.core.errors import AgentOrchestraError, ResourceError, UndeclaredToolWarning, UsageError
from agentorchestra.core.resources import refuse_small_limits, shortage

DEBUG_VARIABLE = "AGENTORCHESTRA_DEBUG"
USAGE = 2
FAILED = 1
CANCELLED = 130


class Unfinished(Exception):
    """An error that stopped a run which is in the log; the error is its cause, the hint the command that goes on."""

    def __init__(self, run_id: str, hint: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id
        self.hint = hint


class Interrupted(Exception):
    """Ctrl-C or SIGTERM, outside a run."""


def main(args: Sequence[str] | None = None) -> int:
    _prepare_streams()
    words = list(sys.argv[1:] if args is None else args)
    debug = os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    if not debug:
        _quieten()
    _end_if_a_thread_cannot_begin()
    try:
        refuse_small_limits()
        from agentorchestra.cli.group import cli

        code = cli.main(words, prog_name="agentorchestra", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except BaseException as exc:
        if isinstance(exc, SystemExit) and _of_click(exc):
            return exc.code if isinstance(exc.code, int) else FAILED
        if debug and not isinstance(exc, click.ClickException):
            traceback.print_exc()
        if isinstance(exc, click.UsageError) and exc.ctx is None:  # click's parser knows no context
            exc.ctx = _context(words)
        return _report(exc, as_json=_wants_json(words))


def _context(words: list[str]) -> click.Context | None:
    from agentorchestra.cli.group import cli

    command: click.Command = cli
    context = click.Context(cli, info_name="agentorchestra")
    for word in words:
        subcommand = command.get_command(context, word) if isinstance(command, click.Group) else None
        if subcommand is None:
            break
        context, command = click.Context(subcommand, context, word), subcommand
    return context


def _of_click(exc: SystemExit) -> bool:
    """Return True if click itself ends the process: shell completion, a help text nobody reads any more."""
    trace = exc.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith("click.")


def _report(exc: BaseException, *, as_json: bool) -> int:
    """Say in one sentence what went wrong; the exit code."""
    run_id, hint = "", ""
    if isinstance(exc, Unfinished) and exc.__cause__ is not None:
        run_id, hint, exc = exc.run_id, exc.hint, exc.__cause__
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        say(exc.format_message())
        return USAGE
    code, sentence = sentence_of(exc)
    kind = "Interrupted" if code == CANCELLED else type(exc).__name__
    if not isinstance(exc, AgentOrchestraError) and shortage(exc):
        kind = ResourceError.__name__
    status = "cancelled" if code == CANCELLED else "failed"
    say(f"error: {sentence}")
    if hint:
        say(hint)
    if as_json and not isinstance(exc, UnwritableError):
        about: dict[str, Any] = {"status": status, "error": sentence, "error_type": kind}
        if run_id:
            about["run_id"] = run_id
        try:
            emit_json(about)
        except UnwritableError as full:
            say(f"error: {full}")
    return code


def sentence_of(exc: BaseException) -> tuple[int, str]:
    if isinstance(exc, click.UsageError):
        path = exc.ctx.command_path if exc.ctx is not None else "agentorchestra"
        message = one_line(exc.format_message(), 2000).rstrip(".")
        if isinstance(exc, click.MissingParameter) and exc.param is not None and exc.param.metavar == "RUN":
            message += ": an id, the beginning of one, or last"
        return USAGE, f"{message}; see `{path} --help`"
    if isinstance(exc, click.Abort | KeyboardInterrupt | Interrupted):
        return CANCELLED, "stopped"
    if isinstance(exc, UsageError):
        return USAGE, one_line(str(exc), 2000)
    if isinstance(exc, AgentOrchestraError | UnwritableError | click.ClickException):
        return FAILED, one_line(str(exc), 2000)
    if isinstance(exc, SystemExit):
        return FAILED, f"the program was ended by a call of sys.exit({exc.code!r}), perhaps in your application"
    if lacking := shortage(exc):
        return FAILED, f"{lacking}; allow more of it, and try again"
    return FAILED, (
        f"this is a bug in agentorchestra: {type(exc).__name__}: {one_line(str(exc), 500)}; please report it, "
        f"{DEBUG_VARIABLE}=1 shows the traceback"
    )


def _wants_json(words: list[str]) -> bool:
    # Wrong arguments are met before they are parsed.
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by the caller: the next file opened would get the descriptor, and what a child process prints.
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


_NO_MEMORY = (
    b"error: this process has too little memory to begin a thread (ulimit -v, or the limit of its container); "
    b"allow more of it, then resume the run\n"
)


def _end_if_a_thread_cannot_begin() -> None:
    """End the process where a new thread dies before it has begun: whoever starts it would wait for it for ever.

    What is recorded is durable, and a process that died is proof enough for a resume to take over.
    """
    before = sys.unraisablehook

    def unraisable(args: Any) -> None:
        # Of threading.Thread: what a thread runs is reported otherwise.
        if getattr(args.object, "__name__", "") == "_bootstrap":
            os.write(2, _NO_MEMORY)  # a constant: there is no memory to make a sentence
            os._exit(FAILED)
        before(args)

    sys.unraisablehook = unraisable


class OneLine(logging.Handler):
    """Says each record in a line; tracebacks are for AGENTORCHESTRA_DEBUG=1."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {one_line(record.getMessage(), 2000)}")


def _quieten() -> None:
    """Libraries and the interpreter say in one line, or not at all, what they would print with a traceback."""
    logging.captureWarnings(True)
    original = warnings.showwarning

    def show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, UndeclaredToolWarning):
            say(f"warning: {one_line(str(message), 2000)}")
        else:
            original(message, category, *place, **more)

    warnings.showwarning = show_warning
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    store = logging.getLogger("agentorchestra.store")
    if not store.handlers:  # that a run waits for its database is for whoever waits for the run
        store.addHandler(OneLine())

    def from_thread(args: threading.ExceptHookArgs) -> None:
        say(f"warning: a thread ended with {args.exc_type.__name__}: {one_line(str(args.exc_value))}")

    def unraisable(args: Any) -> None:
        say(f"warning: ignored {args.exc_type.__name__}: {one_line(str(args.exc_value))}")

    threading.excepthook = from_thread
    sys.unraisablehook = unraisable
