"""The loop of a chat: lines become turns, words for the turn that is worked on, or commands."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from agentorchestra.cli.chat.conversation import SAVED, Conversation
from agentorchestra.cli.chat.display import Answer, TurnDisplay, diff_lines
from agentorchestra.cli.chat.message import MessageCompleter, files_in, kept_as_file, mention
from agentorchestra.cli.chat.screen import ChatScreen, Keyboard
from agentorchestra.cli.delivery import Out, hand_over
from agentorchestra.cli.driver import Stop
from agentorchestra.cli.entry import sentence_of
from agentorchestra.cli.output import account_lines, command, one_line, plural, until_line
from agentorchestra.cli.project import applied_line
from agentorchestra.cli.terminal import TerminalAsker
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import ChatError, FencedError, RunOverError
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import FINAL, Question, RunResult, RunStatus
from agentorchestra.log.ledger import Ledger

_OPEN = (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED)


class ChatAsker(TerminalAsker):
    """Asks in the place of the chat's prompt; where approvals are denied, the answer is no."""

    by = "chat"

    def __init__(self, chat: Chat, run_id: str, display: TurnDisplay) -> None:
        super().__init__(chat.talk.workspace, run_id, display)
        self._chat = chat

    async def __call__(self, question: Question) -> str | bool | None:
        """Return the answer; see TerminalAsker."""
        if self._chat.talk.on_ask == "deny":
            return False if question.kind == "approval" else None
        return await super().__call__(question)

    async def _show(self, lines: list[str]) -> None:
        await self._chat.screen.show(*lines)

    async def _read(self, prompt: str) -> str | None:
        return await self._chat.screen.ask(prompt)


class Chat:
    """A conversation at a terminal.

    Args:
        talk: its session.
        folder: the workspace as the user named it, for the commands in messages.
    """

    def __init__(self, talk: Conversation, folder: Path) -> None:
        from agentorchestra.cli.chat.commands import names

        self.talk = talk
        self.folder = folder
        self.saved = talk.workspace.folder / SAVED
        keyboard = Keyboard(self._accept, self._stop, self._pause, self._switch, self._paste, self._status)
        self.screen = ChatScreen(self.saved / "history", MessageCompleter(lambda: names(self.saved)), keyboard)
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._turn: asyncio.Task[None] | None = None
        self._work: asyncio.Task[RunResult] | None = None  # the run of the turn
        self._side: set[asyncio.Task[None]] = set()  # what keys began
        self._taking = False  # a line is being carried out, which may begin a turn
        self._stopping = False  # Ctrl-C came meanwhile
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
        return 0

    @property
    def at_work(self) -> bool:
        """True while a turn is worked on here."""
        return self._turn is not None and not self._turn.done()

    @property
    def left_open(self) -> str:
        """The turn that is not over and can go on here, "" for none."""
        last = self.talk.last
        return last.id if last is not None and last.status in _OPEN and last.id != self._elsewhere else ""

    # -- lines -----------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        await self.screen.show(*self._header())
        if self.left_open:
            await self.screen.show("the last turn is not over; it goes on")
            self.drive(self.talk.last)
        while True:
            line = await self._lines.get()
            self._taking, self._stopping = True, False
            try:
                await self.take(line)
            except Exception as exc:
                await self.screen.show(f"error: {sentence_of(exc)[1]}")
                if not line.startswith("/"):
                    self.screen.put_back(line)
            finally:
                self._taking = False

    def _header(self) -> list[str]:
        last, talk = self.talk.last, self.talk
        lines = [f"model {talk.model_now}, system {talk.system_now}; /help lists the commands, Ctrl-D leaves"]
        if last is not None:
            lines.append(
                f"session {talk.session}; last turn ({last.status.value}): {one_line(last.manifest.task, 100)}"
            )
            if last.status not in (*FINAL, *_OPEN):
                lines.append("it did not come to its end: /retry goes on with it, a message begins the next turn")
        return lines

    async def take(self, line: str) -> None:
        """Carry out a line.

        Raises:
            UsageError: it cannot be carried out.
        """
        from agentorchestra.cli.chat.commands import carry_out

        if line.startswith("/"):
            text = await carry_out(self, line)
            if text is None:
                return
            line = text
        if self.at_work and await self._told(line):
            return
        if self.left_open:
            await self._go_on(line)
        elif line.strip():
            await self.ask(line)

    async def ask(self, text: str) -> None:
        """Begin the next turn with a message."""
        before = self.talk.last
        files = files_in(text)
        record = await self.talk.begin(text.strip(), files)
        await self.screen.show("", f"> {text.strip()}")
        if before is not None and record.manifest.previous not in (None, before.id):
            await self.screen.show("the session went on elsewhere meanwhile; this turn goes on from there")
        for line in (record.manifest.left_out, *self.talk.workspace.notes):
            if line:
                await self.screen.show(f"warning: {line}")
        self.drive(record)

    async def _told(self, text: str) -> bool:
        """Return True if a text went to the turn that is worked on; where that is just over, wait for its account."""
        assert self._turn is not None
        try:
            await self.tell(text)
        except RunOverError:
            await asyncio.wait([self._turn])
            return False
        return True

    async def tell(self, text: str) -> None:
        """Add to the turn that is worked on; its agent reads it at its next step.

        Raises:
            RunOverError: it is over.
            ChatError: the text names files.
        """
        if not text.strip():
            return
        assert self.talk.last is not None
        if files_in(text):
            raise ChatError("files go with a message that begins a turn; wait for this one, or Ctrl-C stops it")
        await self.talk.workspace.tell(self.talk.last.id, text.strip(), by="chat")
        await self.screen.show(f"queued: {one_line(text, 300)}")

    async def _go_on(self, text: str) -> None:
        """Go on with a turn that was paused or waits; what is typed is told to it."""
        await self.tell(text)
        self.drive(self.talk.last)

    def drive(self, record: RunRecord | None) -> None:
        """Work on a turn."""
        assert record is not None
        self._pausing = False
        self._work = asyncio.create_task(self._resumed(record.id))
        self._turn = asyncio.create_task(self._driven(record, self._work))

    async def _resumed(self, run_id: str) -> RunResult:
        if self._stopping:
            await self.talk.workspace.cancel(run_id, reason="stopped in the chat", by="chat")
            return await self.talk.workspace.result(run_id)
        return await self.talk.workspace.resume(run_id)

    async def _driven(self, record: RunRecord, work: asyncio.Task[RunResult]) -> None:
        workspace, screen = self.talk.workspace, self.screen
        try:
            display = TurnDisplay(workspace, record.id, record.manifest.system, screen)
            workspace.asker = ChatAsker(self, record.id, display)
            async with workspace.watch(record.id) as queue, display.following(queue):
                await asyncio.wait([work])
            if work.cancelled():  # before anything was driven
                await workspace.cancel(record.id, reason="stopped in the chat", by="chat")
            result = await workspace.result(record.id) if work.cancelled() else work.result()
            self.talk.last = await workspace.store.get_run(record.id)
            await screen.show(*await self._account(result, display))
            await self._settle_changes(result)
            await self._next(result)
        except Exception as exc:
            self.talk.last = await workspace.store.get_run(record.id)
            self._elsewhere = record.id if isinstance(exc, FencedError) else ""
            await screen.show(f"error: {sentence_of(exc)[1]}")
            if self.left_open:
                await screen.show("Enter tries again, Ctrl-C ends the turn")

    async def _account(self, result: RunResult, display: TurnDisplay) -> list[RenderableType]:
        """Return what a turn came to: its answer, where that is from, its files, and one line on how it went."""
        talk, parts = self.talk, list[RenderableType]()
        answer = result.answer or (result.report if result.status in FINAL else "")
        if answer:
            parts += ["", Answer(answer)]
        parts += account_lines(result, answer)
        handed = await hand_over(talk.workspace, result, Out(), self.folder)
        parts += [*handed.problems, *handed.lines, display.line(len(await talk.turns()), result)]
        match result.status:
            case RunStatus.WAITING if result.until is not None:
                parts.append(until_line(result.until, result.run_id, self.folder))
            case RunStatus.WAITING:
                parts.append("it waits for an answer: Enter asks again, Ctrl-C ends the turn")
            case RunStatus.PAUSED:
                parts.append("what was done is kept: Enter or a message goes on, Ctrl-C ends the turn")
            case RunStatus.CANCELLED:
                parts.append("stopped: a message begins the next turn, /retry goes on with this one")
            case RunStatus.FAILED | RunStatus.BUDGET_EXHAUSTED | RunStatus.TIMED_OUT:
                parts.append(f"error: {one_line(result.error or result.report, 2000)}; /retry goes on with it")
        return parts

    async def _settle_changes(self, result: RunResult) -> None:
        """Show what a turn changed in its copy of a project, and apply it if the user says so."""
        workspace, record = self.talk.workspace, self.talk.last
        project = record.manifest.project if record is not None else None
        if not result.diff or project is None or not project.path or result.status in _OPEN:
            return
        count = len((await workspace.changes(result.run_id)).files)
        await self.screen.show("", *diff_lines(result.diff))
        allowed = "n"
        if self.talk.on_ask != "deny":
            prompt = f"Apply the changes of {plural(count, 'file')} to {project.path}? y or n: "
            allowed = (await self.screen.ask(prompt) or "").strip().lower()
        if allowed in ("y", "yes"):
            await self.screen.show(applied_line(await workspace.apply(result.run_id)))
        else:
            await self.screen.show(f"to apply it later: {command('apply', result.run_id, self.folder)}")

    async def _next(self, result: RunResult) -> None:
        """Let what was queued and not read any more be the next turn, or be typed further after a stop."""
        unread = await self._unread(result.run_id) if result.status not in _OPEN else []
        if not unread:
            return
        text = "\n".join(unread)
        if result.status in FINAL:
            self._lines.put_nowait(text)
        else:
            self.screen.put_back(text)

    async def _unread(self, run_id: str) -> list[str]:
        ledger = Ledger.of(await self.talk.workspace.events(run_id))
        read: Counter[str] = Counter()
        for record in ledger.records.values():
            if (
                record.kind is EffectKind.RECEIVE
                and record.outcome is not None
                and isinstance(record.outcome.value, list)
            ):
                read.update(str(text) for text in record.outcome.value)
        unread = []
        for _, told in ledger.told:
            if read[told.text]:
                read[told.text] -= 1
            elif not told.to and told.by == "chat":
                unread.append(told.text)
        return unread

    # -- keys ------------------------------------------------------------------------------------------------------

    def _accept(self, text: str) -> None:
        self._lines.put_nowait(text)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._side.add(task)
        task.add_done_callback(self._side.discard)

    def _stop(self) -> bool:
        working = self._work is not None and not self._work.done()
        if self._taking and not working:
            self._stopping = True
            return True
        if not working and not self.left_open:
            return False
        self._begin(self._cancel())
        return True

    async def _cancel(self) -> None:
        """End the turn that is under way, or that was left open."""
        last, workspace = self.talk.last, self.talk.workspace
        if last is None:
            return
        if self.at_work and self._work is not None and last.id not in workspace.engine.driving:
            self._work.cancel()
            return
        await workspace.cancel(last.id, reason="stopped in the chat", by="chat")
        if not self.at_work:
            self.talk.last = await workspace.store.get_run(last.id)
            await self.screen.show("the turn was ended; a message begins the next one")

    def _pause(self) -> None:
        if self._pausing:
            self._stop()
        elif self.at_work:
            self._pausing = True
            self._begin(self._paused())

    async def _paused(self) -> None:
        if self.talk.last is not None:
            await self.talk.workspace.pause(self.talk.last.id, reason="stopped in the chat", by="chat")

    def _switch(self) -> None:
        self.talk.on_ask = "wait" if self.talk.on_ask == "deny" else "deny"

    def _paste(self, text: str) -> str:
        try:
            return mention(kept_as_file(text, self.saved)) + " "
        except ChatError as exc:
            self._begin(self.screen.show(f"error: {exc}"))
            return ""

    def _status(self) -> str:
        keys = "Esc pauses, Ctrl-C stops" if self.at_work else "/help"
        if self._pausing and self.at_work:
            keys = "pauses before the next step; Esc once more stops"
        asks = "denied" if self.talk.on_ask == "deny" else "asked"
        return f"{self.talk.model_now} | approvals {asks} (Shift-Tab) | {keys}"

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _hand_on(self) -> None:
        """Leave a turn that is worked on as it is, for the process that goes on with it."""
        turn, work, last = self._turn, self._work, self.talk.last
        if turn is None or work is None or turn.done() or last is None:
            return
        turn.cancel()
        self.talk.workspace.engine.leave(last.id)
        work.cancel()
        await asyncio.gather(turn, work, return_exceptions=True)

    @property
    def resume_command(self) -> str:
        """The command that goes on with this conversation."""
        return command("chat --resume", shlex.quote(self.talk.session or ""), self.folder)
