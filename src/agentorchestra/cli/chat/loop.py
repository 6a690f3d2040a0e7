"""The loop of a chat: lines become turns, words for the turn that is worked on, or commands."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Never

from rich.console import RenderableType

from agentorchestra.cli.chat.conversation import ChatSession
from agentorchestra.cli.chat.display import DrawnAnswer, TurnDisplay
from agentorchestra.cli.chat.message import at, files_here, files_in, files_named, kept_as_file
from agentorchestra.cli.chat.screen import ChatScreen
from agentorchestra.cli.delivery import Out, hand_over
from agentorchestra.cli.driver import Stop
from agentorchestra.cli.entry import sentence_of
from agentorchestra.cli.output import account_lines, command, one_line, plural, summary_line, until_line
from agentorchestra.cli.project import ON_A_COPY, applied_line, show_diff
from agentorchestra.cli.terminal import TerminalAsker
from agentorchestra.core.errors import ChatError, FencedError, RunOverError
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import FINAL, Question, RunResult, RunStatus
from agentorchestra.log.ledger import Ledger

_OPEN = (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED)
_LEFT = ("abandoned", "waiting", "paused")  # how a turn stands with which somebody may go on
_NEXT = {
    RunStatus.WAITING: "it waits for an answer: Enter asks again, Ctrl-C ends the turn",
    RunStatus.PAUSED: "what was done is kept: Enter or a message goes on, Ctrl-C ends the turn",
    RunStatus.CANCELLED: "stopped: a message begins the next turn, /retry goes on with this one",
}
_STOPPED = {"reason": "stopped in the chat", "by": "chat"}


class ChatAsker(TerminalAsker):
    """Asks in the place of the chat's prompt; where approvals are denied, the answer is no."""

    by = "chat"

    def __init__(self, chat: Chat, run_id: str, display: TurnDisplay) -> None:
        super().__init__(chat.talk.workspace, run_id, display)
        self._chat = chat

    async def __call__(self, question: Question) -> str | bool | None:
        if self._chat.denies:
            return False if question.kind == "approval" else None
        answer = await super().__call__(question)
        if question.kind == "approval" and answer is not None:
            await self._show(["  allowed" if answer is True else "  denied"])
        return answer

    async def _show(self, lines: list[str]) -> None:
        await self._chat.screen.show(*lines)

    async def _read(self, prompt: str) -> str | None:
        return await self._chat.screen.ask(prompt)


class Chat:
    """A conversation at a terminal; `folder` is the workspace as the user named it, for the commands in messages."""

    def __init__(
        self,
        talk: ChatSession,
        folder: Path,
        carry_out: Callable[[Chat, str], Awaitable[str | None]],  # a line that begins with a /
        commands: Callable[[Path], list[str]],  # what may stand behind it, of a folder of saved prompts
    ) -> None:
        self.talk = talk
        self._carry_out = carry_out
        self._commands = commands
        self.folder = folder
        self.saved = talk.workspace.folder / "chat"  # saved prompts (`NAME.md`), the history, pasted texts
        self.screen = ChatScreen(self)
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._turn: asyncio.Task[None] | None = None
        self._work: asyncio.Task[RunResult] | None = None  # the run of the turn
        self._side: list[asyncio.Task[object]] = []  # what keys began
        self._taking = False  # a line is being carried out, which may begin a turn
        self._stopping = False  # Ctrl-C came since a line was accepted
        self._pausing = False
        self._elsewhere = ""  # a turn that another process works on

    async def run(self, stop: Stop) -> int:
        """Talk until the user leaves; a turn that is under way then stays so, for who goes on with it."""
        listening = asyncio.create_task(self.screen.listen())
        serving = asyncio.create_task(self._serve())
        try:
            with stop.aimed_at(listening):
                await asyncio.wait([listening, serving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            serving.cancel()
            await self._hand_on()
            self.screen.leave()
            await asyncio.gather(serving, *self._side, return_exceptions=True)
        await listening
        return 0 if serving.cancelled() else serving.result()

    @property
    def at_work(self) -> bool:
        """Return True until a turn is over here, and its account printed."""
        return self._turn is not None and not self._turn.done()

    @property
    def left_open(self) -> bool:
        """Return True if the last turn is not over, and may go on here."""
        last = self.talk.last
        return last is not None and last.status in _OPEN and last.id != self._elsewhere

    @property
    def denies(self) -> bool:
        return self.talk.options.get("on_ask") == "deny"

    @property
    def resume_command(self) -> str:
        return command("chat --resume", shlex.quote(self.talk.session or ""), self.folder)

    # -- lines -----------------------------------------------------------------------------------------------------

    async def _serve(self) -> Never:
        talk = self.talk
        await self.screen.show(f"model {talk.now('model')}, system {talk.now('system')}; /help lists commands and keys")
        if talk.last is not None:
            await self.go_on()
        elif (file := next(files_here(), None)) is not None:
            await self.screen.show(f"a message attaches a file with @, as in: what is in {at(file)}?")
        if talks := await talk.other_talks():
            left = [turns[-1] for turns, state in talks if state in _LEFT]
            if left and talk.last is None:
                on = command("chat --resume", left[0].id, self.folder)
                await self.screen.show(f"not over yet: {one_line(left[0].manifest.task, 60)}; {on} goes on with it")
            await self.screen.show(f"/resume lists {plural(len(talks), 'other conversation')}")
        while True:
            line = await self._lines.get()
            self._taking = True
            try:
                await self._take(line)
            except Exception as exc:
                await self.screen.show(f"error: {sentence_of(exc)[1]}")
                if not line.startswith("/"):
                    self.screen.put_back(line)
            finally:
                self._taking = False

    async def go_on(self) -> None:
        """Say where the conversation is, and go on with a turn that was left open."""
        last = self.talk.last
        assert last is not None
        await self.screen.show(f"session {self.talk.session}; the last turn: {one_line(last.manifest.task, 100)}")
        if self.left_open:
            await self.screen.show("it is not over, and goes on")
            self.drive(last)
        elif last.status not in FINAL:
            await self.screen.show(f"it ended as {last.status.value}: /retry goes on with it")

    async def _take(self, line: str) -> None:
        if self._turn is not None and self._work is not None and self._work.done():
            await asyncio.wait([self._turn])  # its account is being given
        text = await self._carry_out(self, line) if line.startswith("/") else line
        if text is None:
            return
        if self.at_work and self._turn is not None:
            try:
                return await self.tell(text)
            except RunOverError:
                await asyncio.wait([self._turn])
        if self.left_open and self.talk.last is not None:
            await self.tell(text)
            self.drive(self.talk.last)
        elif text.strip():
            await self._begin(text.strip())

    async def _begin(self, text: str) -> None:
        before, files = self.talk.last, files_in(text)
        extra = [file for file in files_named(text) if not self.talk.has(file)]
        if extra:
            names, pronouns = ", ".join(map(str, extra)), ("is", "it") if len(extra) == 1 else ("are", "them")
            attach = await self._confirm(f"{names} {pronouns[0]} in this folder: attach {pronouns[1]}? y or n: ")
            if attach is None:
                return self.screen.put_back(text)
            files += extra if attach else []
        record = await self.talk.begin(text, files)
        await self.screen.show("", f"> {text}", *(f"attached: {file}" for file in files if file in extra))
        if before is not None and record.manifest.previous not in (None, before.id):
            await self.screen.show("the session went on elsewhere meanwhile; this turn goes on from there")
        if before is None and record.manifest.project is not None:
            await self.screen.show(ON_A_COPY.format(record.manifest.project.path))
        for line in (record.manifest.left_out, *self.talk.workspace.components.notes):
            if line:
                await self.screen.show(f"warning: {line}")
        self.drive(record)

    async def tell(self, text: str) -> None:
        """Add to a turn that is not over (else raise RunOverError); its agent reads it at its next step."""
        if not text.strip() or self.talk.last is None:
            return
        if files_in(text):
            raise ChatError("files go with a message that begins a turn; wait for this one, or Ctrl-C stops it")
        await self.talk.workspace.tell(self.talk.last.id, text.strip(), by="chat")
        await self.screen.show(f"queued: {one_line(text, 300)}")

    # -- turns -----------------------------------------------------------------------------------------------------

    def drive(self, record: RunRecord) -> None:
        self._pausing = False
        self._work = asyncio.create_task(self._resume(record.id))
        self._turn = asyncio.create_task(self._drive(record, self._work))
        self._turn.add_done_callback(lambda turn: self.screen.refresh())

    async def _resume(self, run_id: str) -> RunResult:
        if self._stopping:
            await self.talk.workspace.cancel(run_id, **_STOPPED)
            return await self.talk.workspace.runs.result(run_id)
        return await self.talk.workspace.resume(run_id)

    async def _drive(self, record: RunRecord, work: asyncio.Task[RunResult]) -> None:
        workspace, screen = self.talk.workspace, self.screen
        try:
            display = TurnDisplay(workspace, record.id, screen)
            workspace.asker = ChatAsker(self, record.id, display)
            async with workspace.runs.watch(record.id) as queue, display.following(queue):
                await asyncio.wait([work])
            if work.cancelled():  # before anything was driven
                await workspace.cancel(record.id, **_STOPPED)
            result = await workspace.runs.result(record.id) if work.cancelled() else work.result()
            self.talk.last = await workspace.store.get_run(record.id)
            await screen.show(*await self._account(result, display.answer))
            if result.diff and result.status not in _OPEN:
                await self._settle_changes(result, record)
            if result.status not in _OPEN and (text := "\n".join(await self._late_words(record.id))):
                if result.status in FINAL:
                    self.accept(text)
                else:
                    screen.put_back(text)
        except Exception as exc:
            self.talk.last = await workspace.store.get_run(record.id)
            self._elsewhere = record.id if isinstance(exc, FencedError) else ""
            await screen.show(f"error: {sentence_of(exc)[1]}")

    async def _account(self, result: RunResult, draft: str) -> list[RenderableType]:
        """Return what a turn came to: its answer, where that is from, its files, and one line on how it went."""
        stopped = draft if result.status is RunStatus.CANCELLED else ""  # it was on the screen, and stays
        answer = result.answer_text or (result.report if result.status in FINAL else "") or stopped
        delivery = await hand_over(self.talk.workspace, result, Out(), self.folder)
        parts: list[RenderableType] = ["", DrawnAnswer(answer)] if answer else []
        lines = account_lines(result, answer)
        if lines[:1] == [result.report]:
            parts += ["", DrawnAnswer(lines.pop(0))]
        parts += ["", *lines, *delivery.problems, *delivery.lines]
        parts.append(f"[{len(await self.talk.turns())}] {summary_line(result)}")
        if result.until is not None and result.status is RunStatus.WAITING:
            parts.append(until_line(result.until, result.run_id, self.folder))
        elif result.status in _NEXT:
            parts.append(_NEXT[result.status])
        elif result.status not in FINAL:
            parts.append(f"error: {one_line(result.error or result.report, 2000)}; /retry goes on with it")
        return parts

    async def _settle_changes(self, result: RunResult, record: RunRecord) -> None:
        """Show what a turn changed in its copy of a project, and apply it if the user says so."""
        workspace, project = self.talk.workspace, record.manifest.project
        changes = await workspace.files.changes(result.run_id)
        show_diff(result.diff)
        prompt = f"Apply the changes of {plural(len(changes.files), 'file')} to {project and project.path}? y or n: "
        if not self.denies and await self._confirm(prompt):
            await self.screen.show(applied_line(await workspace.files.apply(result.run_id)))
        else:
            await self.screen.show(f"not applied; to apply it later: {command('apply', result.run_id, self.folder)}")

    async def _confirm(self, question: str) -> bool | None:
        """Return what the user says to a question for y or n; None for Ctrl-D."""
        prompt = question
        while (line := await self.screen.ask(prompt)) is not None:
            if (word := line.strip().lower()) in ("y", "yes", "n", "no"):
                return word[0] == "y"
            prompt = f"Type y or n. {question}"
        return None

    async def _late_words(self, run_id: str) -> list[str]:
        """Return what was queued for a turn, and came too late for it."""
        ledger = Ledger.of(await self.talk.workspace.log.events(run_id))
        texts = Counter(entry.text for _, entry in ledger.told if entry.by == "chat" and not entry.to)
        return [*(texts - Counter(ledger.read_mail())).elements()]

    async def _hand_on(self) -> None:
        """Leave a turn that is worked on as it is, for the process that goes on with it."""
        turn, work, last = self._turn, self._work, self.talk.last
        if turn is None or work is None or turn.done() or last is None:
            return
        turn.cancel()
        self.talk.workspace.engine.leave(last.id)
        work.cancel()
        await asyncio.gather(turn, work, return_exceptions=True)

    # -- keys ------------------------------------------------------------------------------------------------------

    def accept(self, line: str) -> None:
        self._stopping = False
        self._lines.put_nowait(line)

    def names(self) -> list[str]:
        return self._commands(self.saved)

    def stop(self) -> bool:
        """End the turn that is under way or was left open; return False where there is none."""
        working = self._work is not None and not self._work.done()
        if not working and self.screen.asking:
            return False
        if not working and (self._taking or not self._lines.empty()):
            self._stopping = True
        elif working or self.left_open:
            self._aside(self._cancel())
        else:
            return False
        return True

    def pause(self) -> None:
        """Pause the turn before its next step; the second time, end it."""
        if self._pausing:
            self.stop()
        elif self.at_work and self.talk.last is not None:
            self._pausing = True
            self._aside(self.talk.workspace.pause(self.talk.last.id, **_STOPPED))

    def switch(self) -> None:
        self.talk.options["on_ask"] = "wait" if self.denies else "deny"

    def paste(self, text: str) -> str:
        """Keep a long text as a file; return what names it in a message."""
        return kept_as_file(text, self.saved)

    def status(self) -> str:
        keys = "Esc pauses, Ctrl-C stops" if self.at_work else "/help"
        if self.screen.asking:
            keys = "Ctrl-D leaves the question open, Ctrl-C stops the turn"
        elif self._pausing and self.at_work:
            keys = "pauses before the next step; Esc once more stops"
        return f"{self.talk.now('model')} | approvals {'denied' if self.denies else 'asked'} (Shift-Tab) | {keys}"

    def _aside(self, work: Coroutine[Any, Any, object]) -> None:
        self._side.append(asyncio.create_task(work))

    async def _cancel(self) -> None:
        last, workspace = self.talk.last, self.talk.workspace
        assert last is not None
        if self.at_work and self._work is not None and last.id not in workspace.engine.driving:
            self._work.cancel()  # it has not begun
            return
        await workspace.cancel(last.id, **_STOPPED)
        if not self.at_work:
            self.talk.last = await workspace.store.get_run(last.id)
            await self.screen.show("the turn was ended; a message begins the next one")
