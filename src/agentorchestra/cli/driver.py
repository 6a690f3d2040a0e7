"""Driving a run at a terminal: progress, questions, Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from agentorchestra.cli.entry import CANCELLED, Interrupted, OneLine, Unfinished
from agentorchestra.cli.output import command, say
from agentorchestra.cli.terminal import TerminalAsker
from agentorchestra.cli.view.live import LiveDisplay, PlainDisplay, RunDisplay, is_terminal, live_here
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import FencedError, UsageError
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.workspace import Workspace

T = TypeVar("T")

_STOP = "agentorchestra.stop"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Ctrl-C (and SIGTERM): the first one cancels one task, which puts everything away; the second ends the process.

    A terminal that is closed sends SIGHUP, some of them more than once: it counts as the first one only.
    """

    @staticmethod
    def of_command() -> Stop:
        stop: Stop = click.get_current_context().meta[_STOP]
        return stop

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._target = task
        self.received = 0
        self.leave: Callable[[], None] = lambda: None  # puts the terminal in order before the process ends at once

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals, unless the caller had this process ignore them."""
        loop = asyncio.get_running_loop()
        before = {signum: signal.getsignal(signum) for signum in _SIGNALS}
        signals = [signum for signum, handler in before.items() if handler not in (signal.SIG_IGN, None)]
        for signum in signals:
            loop.add_signal_handler(signum, self._receive, signum)
        try:
            yield
        finally:
            for signum in signals:
                loop.remove_signal_handler(signum)
                signal.signal(signum, before[signum])

    @contextmanager
    def aimed_at(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Cancel this task instead."""
        before, self._target = self._target, task
        try:
            yield
        finally:
            self._target = before

    def _receive(self, number: signal.Signals) -> None:
        self.received += 1
        if self.received == 1:
            say("\nstopping (once more ends it at once)")
            self._target.cancel()
        elif number is not signal.SIGHUP:
            self.leave()
            # What is recorded is durable; a process that died is proof enough for a resume to take over.
            os._exit(CANCELLED)


def run_async(work: Awaitable[T]) -> T:
    """Run a command's work under an event loop; raise Interrupted if it was stopped outside a run."""

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        stop = click.get_current_context().meta[_STOP] = Stop(task)
        with stop.listening():
            return await work

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise Interrupted from None


def _under_a_loop(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs what `work` gives under an event loop, if that is a coroutine."""

    @wraps(work)
    def run(*args: Any, **values: Any) -> Any:
        done = work(*args, **values)
        return run_async(done) if asyncio.iscoroutine(done) else done

    return run


def async_command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Awaitable[int]]], Any]:
    """`click.command` for a coroutine, which runs under an event loop."""
    return lambda work: click.command(name, click.Command, **attributes)(_under_a_loop(work))


class AsyncGroup(click.Group):
    """A group whose commands may be coroutines."""

    def command(self, *args: Any, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:  # type: ignore[override]
        add = super().command(*args, **attributes)
        return lambda work: add(_under_a_loop(work))


@contextmanager
def logs_in_lines(*names: str) -> Iterator[None]:
    handler = OneLine()
    for name in names:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(handler)


async def drive(
    workspace: Workspace[Any],
    run_id: str,
    stop: Stop | None = None,
    *,
    folder: Path,
    as_json: bool,
    ask: bool,
    budget: Budget | None = None,
    pin: bool = False,
    talk: bool = False,
) -> RunResult:
    """Drive a run in this process to its end, or to where it waits; Ctrl-C cancels it and gives its result.

    `folder` is as the user named it, for the commands in messages; `ask` allows questions at the terminal; `budget`
    sets other limits from here on; `talk` shows what is said in a debate, and not how it comes about. A UsageError
    comes before anything is done; any other error is raised as Unfinished, with the run's id.
    """
    stop = stop or Stop.of_command()
    try:
        display = None if as_json else await _display(workspace, run_id, talk=talk)
        if ask and at_terminal():
            workspace.asker = TerminalAsker(workspace, run_id, display)
        stop.leave = display.leave if display is not None else stop.leave
        async with (
            workspace.runs.watch(run_id) as queue,
            display.following(queue) if display is not None else nullcontext(),
        ):
            work = asyncio.create_task(workspace.resume(run_id, budget=budget, pin=pin))
            with stop.aimed_at(work):
                await asyncio.wait([work])
            if display is not None and not work.cancelled():
                display.stays = not isinstance(work.exception(), FencedError | UsageError)
        if not work.cancelled():
            return work.result()
        result = await workspace.runs.result(run_id)
        if result.status in (RunStatus.CREATED, RunStatus.RUNNING):
            # Stopped before anything was driven: nobody wrote it down yet.
            await workspace.cancel(run_id, reason="stopped at the terminal")
            result = await workspace.runs.result(run_id)
        return result
    except UsageError:
        raise
    except Exception as exc:
        raise Unfinished(run_id, f"to go on: {command('resume', run_id, folder)}") from exc


async def _display(workspace: Workspace[Any], run_id: str, *, talk: bool) -> RunDisplay:
    """Return the live picture at a terminal, else a display that prints lines."""
    if live_here() and not talk:
        return LiveDisplay(workspace, run_id)
    events = await workspace.log.events(run_id)
    return PlainDisplay(workspace, run_id, steps=(await workspace.runs.result(run_id)).steps, before=events, talk=talk)


def at_terminal() -> bool:
    return is_terminal(sys.stdin)
