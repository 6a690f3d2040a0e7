"""The commands of a chat: `/help` lists them."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from agentorchestra.cli.output import bill, one_line, plural
from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import ChatError
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import FINAL

if TYPE_CHECKING:
    from agentorchestra.cli.chat.loop import Chat


class Command(NamedTuple):
    """A command: what is typed behind its name, what it does, and the function, which may give a message to send."""

    arguments: str
    summary: str
    work: Callable[[Chat, str], Awaitable[str | None]]
    at_work: bool = False  # whether it can be given while a turn is worked on


def names(saved: Path) -> list[str]:
    """Return the names of the commands and of the saved prompts."""
    return [*COMMANDS, *(one for one in _prompts(saved) if one not in COMMANDS)]


async def carry_out(chat: Chat, line: str) -> str | None:
    """Carry out a line that begins with a /; return a message that is to be sent, None for none.

    Raises:
        ChatError: there is no such command, or it cannot be carried out.
    """
    name, _, rest = line[1:].strip().partition(" ")
    if name in COMMANDS:
        found = COMMANDS[name]
        if chat.at_work and not found.at_work:
            raise ChatError(f"/{name} has to wait until the turn is over; Ctrl-C stops it")
        return await found.work(chat, rest.strip())
    prompt = _prompts(chat.saved).get(name)
    if prompt is None:
        close = difflib.get_close_matches(name, names(chat.saved), n=1, cutoff=0.5)
        guess = f"did you mean /{close[0]}?" if close else "/help lists the commands"
        raise ChatError(f"there is no command /{name}; {guess} A message that begins with / has a blank before it")
    try:
        text = prompt.read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        raise ChatError(f"the saved prompt {prompt} cannot be read: {exc}; write it anew, in UTF-8") from None
    if not text.strip():
        raise ChatError(f"the saved prompt {prompt} is empty; write what is to be sent into it")
    return "\n\n".join(part for part in (text.strip(), rest.strip()) if part)


def _prompts(saved: Path) -> dict[str, Path]:
    try:
        return {one.stem: one for one in sorted(saved.glob("*.md"))}
    except OSError:
        return {}


async def _help(chat: Chat, rest: str) -> None:
    commands = {f"/{name} {one.arguments}".rstrip(): one.summary for name, one in COMMANDS.items()}
    saved = {f"/{name}": f"send {path}" for name, path in _prompts(chat.saved).items() if name not in COMMANDS}
    rows = commands | saved | KEYS
    width = max(map(len, rows))
    await chat.screen.show(*(f"{name:<{width}}  {summary}" for name, summary in rows.items()))


async def _model(chat: Chat, rest: str) -> None:
    talk = chat.talk
    if not rest:
        known = ", ".join(talk.workspace.models.named())
        await chat.screen.show(f"model {talk.model_now}; models: {known}, or provider:model")
        return
    talk.workspace.models.check(rest)
    talk.model = rest
    await chat.screen.show(f"the next turn asks {rest}")


async def _system(chat: Chat, rest: str) -> None:
    talk = chat.talk
    known = {*talk.workspace.systems, *talk.workspace.agents}
    if not rest:
        await chat.screen.show(f"system {talk.system_now}; systems: {', '.join(sorted(known))}")
        return
    if rest not in known:
        close = difflib.get_close_matches(rest, known, n=1)
        guess = f"did you mean {close[0]}?" if close else "/system lists them"
        raise ChatError(f"there is no system {rest!r}; {guess}")
    talk.system = rest
    await chat.screen.show(f"the next turn works as {rest}")


async def _files(chat: Chat, rest: str) -> None:
    given = chat.talk.last.manifest.files if chat.talk.last is not None else ()
    lines = [f"{one.name} ({plural(one.size, 'byte')}), from you" for one in given]
    for number, turn in enumerate(await chat.talk.turns(), 1):
        for file in (await chat.talk.workspace.result(turn.id)).files:
            lines.append(f"{file.name} ({plural(file.size, 'byte')}), made in turn {number} by {file.made_by}")
    await chat.screen.show(*lines or ["no files yet; a message attaches one with @PATH"])


async def _cost(chat: Chat, rest: str) -> None:
    total, lines = Usage(), []
    for number, turn in enumerate(await chat.talk.turns(), 1):
        usage = (await chat.talk.workspace.result(turn.id)).usage
        total += usage
        lines.append(f"[{number}] {plural(usage.tokens, 'token')}, {bill(usage)}")
    await chat.screen.show(*lines, f"all turns: {plural(total.tokens, 'token')}, {bill(total)}")


async def _undo(chat: Chat, rest: str) -> None:
    turns = await chat.talk.turns()
    if not turns:
        raise ChatError("there is no turn to undo yet")
    await chat.talk.branch(len(turns) - 1)
    await chat.screen.show(
        f"turn {len(turns)} is left out from here on; what it did outside of the conversation stays: "
        f"{one_line(turns[-1].manifest.task, 80)}"
    )
    chat.screen.put_back(turns[-1].manifest.task)


async def _fork(chat: Chat, rest: str) -> None:
    turns = await chat.talk.turns()
    if not rest:
        lines = [f"[{number}] {one_line(turn.manifest.task, 100)}" for number, turn in enumerate(turns, 1)]
        await chat.screen.show(*lines, "/fork N goes on from the end of turn N")
        return
    if not rest.isdecimal():
        raise ChatError(f"/fork takes the number of a turn, not {rest!r}; /fork lists them")
    await chat.talk.branch(int(rest))
    await chat.screen.show(f"the conversation goes on from turn {rest}, in the session {chat.talk.session or '(new)'}")


async def _retry(chat: Chat, rest: str) -> str | None:
    last = _last(chat)
    if last.status not in FINAL:
        chat.drive(last)
        return None
    turns = await chat.talk.turns()
    await chat.talk.branch(len(turns) - 1)
    return last.manifest.task


async def _show(chat: Chat, rest: str) -> None:
    from agentorchestra.cli.view.model import RunView
    from agentorchestra.cli.view.tree import tree_lines

    await chat.screen.show(*tree_lines(RunView.of(await chat.talk.workspace.events(_last(chat).id))))


async def _open(chat: Chat, rest: str) -> None:
    from agentorchestra.cli.view.html import pictures, render
    from agentorchestra.cli.view.model import RunView
    from agentorchestra.log.conversation import conversation

    workspace, record = chat.talk.workspace, _last(chat)
    events, result = await workspace.events(record.id), await workspace.result(record.id)
    shown = await pictures(result.files, workspace.store.get_blob)
    page = render(RunView.of(events), record, result, gone=False, talk=conversation(events), pictures=shown)
    path = (chat.saved / f"{record.id}.html").absolute()
    _write(path, page)
    await chat.screen.show(f"written: {path}")
    await asyncio.to_thread(click.launch, str(path))


async def _tell(chat: Chat, rest: str) -> None:
    if not chat.at_work:
        raise ChatError("no turn is worked on; type the message itself, it begins the next one")
    if not rest:
        raise ChatError("/tell takes the text that the agent is to read at its next step")
    await chat.tell(rest)


async def _save(chat: Chat, rest: str) -> None:
    turns = await chat.talk.turns()
    if not turns:
        raise ChatError("there is nothing to save yet")
    path = Path(rest or f"{chat.talk.session}.md").expanduser()
    if path.exists():
        raise ChatError(f"{path} is there already; name another file: /save FILE")
    parts = []
    for turn in turns:
        result = await chat.talk.workspace.result(turn.id)
        parts += ["## You", turn.manifest.task, "## Answer", result.answer or f"({result.status.value})"]
    _write(path, "\n\n".join(parts) + "\n")
    await chat.screen.show(f"written: {path}")


async def _editor(chat: Chat, rest: str) -> None:
    chat.screen.edit()


async def _quit(chat: Chat, rest: str) -> None:
    chat.screen.leave()


def _last(chat: Chat) -> RunRecord:
    if chat.talk.last is None:
        raise ChatError("there is no turn yet; type a message")
    return chat.talk.last


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as exc:
        raise ChatError(f"{path} cannot be written: {exc.strerror}; name another place") from None


COMMANDS: dict[str, Command] = {
    "help": Command("", "list the commands and keys", _help, at_work=True),
    "model": Command("[NAME]", "ask another model from the next turn on", _model, at_work=True),
    "system": Command("[NAME]", "have another system work from the next turn on", _system, at_work=True),
    "files": Command("", "list the files of the conversation", _files, at_work=True),
    "cost": Command("", "say what the turns cost", _cost, at_work=True),
    "undo": Command("", "leave the last turn out, and change its message", _undo),
    "fork": Command("[N]", "go on from the end of turn N, in a session of its own", _fork),
    "retry": Command("", "go on with a turn that stopped, or do a finished one again", _retry),
    "show": Command("", "show what the last turn did, step by step", _show, at_work=True),
    "open": Command("", "open the last turn as a page in the browser", _open, at_work=True),
    "tell": Command("TEXT", "add to the turn that is worked on", _tell, at_work=True),
    "save": Command("[FILE]", "write the conversation as Markdown", _save),
    "editor": Command("", "write the message in $EDITOR (Ctrl-X Ctrl-E)", _editor, at_work=True),
    "quit": Command("", "leave; `agentorchestra chat --resume` goes on", _quit, at_work=True),
}

KEYS = {
    "@PATH": 'attach a file or folder; one with blanks as @"my file.pdf"',
    "Enter": "send; while a turn is worked on: queue for its agent",
    "Alt-Enter": "begin a new line",
    "Ctrl-C": "stop the turn; twice on the empty line: leave",
    "Esc": "pause before the next step, and keep what was done",
    "Shift-Tab": "deny approvals, or ask again",
    "Ctrl-R, Up": "search and repeat what was typed",
    "Ctrl-D": "leave",
}
