"""The commands of a chat: `/help` lists them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import getdoc
from pathlib import Path
from subprocess import DEVNULL, Popen

from agentorchestra.cli.chat.loop import Chat
from agentorchestra.cli.output import account_lines, bill, cut_line, one_line, plural
from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import ChatError
from agentorchestra.core.names import did_you_mean, nearest
from agentorchestra.core.protocols import RunHead, RunRecord
from agentorchestra.core.spec import FINAL
from agentorchestra.log.ledger import Ledger

_ALSO = {"exit": "quit", "bye": "quit", "clear": "new", "reset": "new", "sessions": "resume"}
"""Names that other programs have for these commands."""

_BETWEEN = ("new", "resume", "undo", "fork", "retry", "save")  # commands that wait for the end of a turn

_LATEST = 10  # conversations that are listed
_SYSTEMS = ("agentorchestra", "oagents", "owl", "coral", "aorchestra")  # are listed first

KEYS = {
    "@PATH": 'attach a file or folder; one with blanks as @"my file.pdf"',
    "Enter, Alt-Enter": "send, begin a new line; while a turn is worked on: queue for its agent",
    "Ctrl-C": "stop the turn; twice on the empty line: leave",
    "Esc": "pause before the next step, and keep what was done",
    "Shift-Tab": "deny approvals, or ask again",
    "Ctrl-R, Up": "search and repeat what was typed",
    "Ctrl-X Ctrl-E": "write the message in $EDITOR",
    "Ctrl-D": "leave; `agentorchestra chat --resume` goes on",
}


def prompts(path: Path) -> dict[str, Path]:
    """Return the files of the saved prompts by name."""
    return {path.stem: path for path in sorted(path.glob("*.md")) if path.stem not in COMMANDS}


def names(path: Path) -> list[str]:
    """Return the commands and the saved prompts."""
    return [*COMMANDS, *prompts(path)]


async def carry_out(chat: Chat, line: str) -> str | None:
    """Carry out a line that begins with a /, or raise ChatError; return a message that is to be sent."""
    name, _, rest = line[1:].strip().partition(" ")
    name = _ALSO.get(name, name)
    if name in COMMANDS:
        if chat.at_work and name in _BETWEEN:
            raise ChatError(f"/{name} has to wait until the turn is over; Ctrl-C stops it")
        return await COMMANDS[name](chat, rest.strip())
    paths = prompts(chat.saved)
    if name not in paths:
        close = nearest(name, [*COMMANDS, *paths])
        guess = f"did you mean /{close[0]}?" if close else "/help lists the commands."
        raise ChatError(f"there is no command /{name}; {guess} A message that begins with / has a blank before it")
    try:
        text = paths[name].read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        raise ChatError(f"the saved prompt {paths[name]} cannot be read: {exc}; write it anew, in UTF-8") from None
    return f"{text.strip()}\n\n{rest.strip()}".strip()


async def _help(chat: Chat, rest: str) -> None:
    """: list the commands and keys."""
    summaries = {name: (work.__doc__ or "").rstrip(".").split(": ", 1) for name, work in COMMANDS.items()}
    rows = {f"/{name} {usage}".rstrip(): summary for name, (usage, summary) in summaries.items()}
    rows |= {f"/{name}": f"send {path}" for name, path in prompts(chat.saved).items()} | KEYS
    width = max(map(len, rows))
    await chat.screen.show(*(f"{name:<{width}}  {summary}" for name, summary in rows.items()))


async def _model(chat: Chat, rest: str) -> None:
    """[NAME]: ask another model from the next turn on."""
    models = chat.talk.workspace.models
    if rest:
        models.check(rest)
        chat.talk.options["model"] = rest
    profiles = chat.talk.workspace.settings.models
    names = {name: profiles[name].model if name in profiles else "" for name in models.uses()} if not rest else {}
    await chat.screen.show(*_rows(chat, names), *(["any other model: /model provider:model"] if names else []))
    await chat.screen.show(f"the next turn asks {chat.talk.now('model')}")


async def _system(chat: Chat, rest: str) -> None:
    """[NAME]: have another system work from the next turn on."""
    systems, agents = chat.talk.workspace.catalog.systems, chat.talk.workspace.catalog.agents
    if rest and rest not in {*systems, *agents}:
        raise ChatError(f"there is no system {rest!r}; {did_you_mean(rest, {*systems, *agents}, '/system lists them')}")
    chat.talk.options["system"] = rest or None
    if not rest:
        names = [*dict.fromkeys([system for system in _SYSTEMS if system in systems] + sorted({*systems} - {*agents}))]
        texts = {name: getattr(systems[name], "description", "") or getdoc(systems[name]) or "" for name in names}
        alone = {name: agents[name].description for name in sorted(agents)}
        await chat.screen.show(*_rows(chat, texts), "or an agent alone:", *_rows(chat, alone))
    await chat.screen.show(f"the next turn works as {chat.talk.now('system')}")


async def _files(chat: Chat, rest: str) -> None:
    """: list the files of the conversation."""
    attachments = chat.talk.last.manifest.files if chat.talk.last is not None else ()
    lines = [f"{doc.name} ({plural(doc.size, 'byte')}), from you" for doc in attachments]
    for number, turn in enumerate(await chat.talk.turns(), 1):
        docs = (await chat.talk.workspace.runs.result(turn.id)).files
        lines += [f"{doc.name} ({plural(doc.size, 'byte')}), made in turn {number} by {doc.made_by}" for doc in docs]
    await chat.screen.show(*lines or ["no files yet; a message attaches one with @PATH"])


async def _cost(chat: Chat, rest: str) -> None:
    """: say what the turns cost."""
    usages = [await _cost_of(chat, turn) for turn in await chat.talk.turns()]
    rows = [(f"[{number}]", usage) for number, usage in enumerate(usages, 1)]
    total = ("all turns:", sum(usages, Usage()))
    await chat.screen.show(*(f"{name} {plural(use.tokens, 'token')}, {bill(use)}" for name, use in [*rows, total]))


async def _new(chat: Chat, rest: str) -> None:
    """: begin a new conversation."""
    chat.talk.session = chat.talk.last = None
    await chat.screen.show("a new conversation; /resume lists those before")


async def _resume(chat: Chat, rest: str) -> None:
    """[N]: list the latest conversations, go on with one."""
    talk, talks = chat.talk, (await chat.talk.other_talks())[:_LATEST]
    if rest:
        if not rest.isdecimal() or not 0 < int(rest) <= len(talks):
            raise ChatError(f"there is no conversation with the number {rest!r}; /resume lists them")
        last = talks[int(rest) - 1][0][-1]
        talk.session = last.manifest.session or last.id
        await talk.look()
        return await chat.go_on()
    for number, (turns, state) in enumerate(talks, 1):
        when = f"{turns[-1].created.astimezone():%Y-%m-%d %H:%M}"
        cost = bill(sum([await _cost_of(chat, turn) for turn in turns], Usage()))
        about = f"{plural(len(turns), 'turn')}, {when}, {cost}, {state}"
        await chat.screen.show(f"[{number}] {one_line(turns[0].manifest.task, 60)} ({about})")
    await chat.screen.show("/resume N opens conversation N" if talks else "there is no other conversation")


async def _quit(chat: Chat, rest: str) -> None:
    """: leave, as Ctrl-D does."""
    chat.screen.leave()


async def _undo(chat: Chat, rest: str) -> None:
    """: leave the last turn out, and change its message."""
    task, count = _last(chat).manifest.task, len(await chat.talk.turns())
    await chat.talk.branch(count - 1)
    await chat.screen.show(f"turn {count} is left out from here on; what it did outside of the conversation stays")
    chat.screen.put_back(task)


async def _fork(chat: Chat, rest: str) -> None:
    """[N]: go on from the end of turn N, in a session of its own."""
    if rest.isdecimal():
        await chat.talk.branch(int(rest))
        await chat.screen.show(f"the conversation goes on from turn {rest}")
        return
    turns = enumerate(await chat.talk.turns(), 1)
    lines = [f"[{number}] {one_line(turn.manifest.task, 100)}" for number, turn in turns]
    await chat.screen.show(*lines, "/fork N goes on from the end of turn N")


async def _retry(chat: Chat, rest: str) -> str | None:
    """: go on with a turn that stopped, or do a finished one again."""
    last = _last(chat)
    if last.status not in FINAL:
        chat.drive(last)
        return None
    await chat.talk.branch(len(await chat.talk.turns()) - 1)
    return last.manifest.task


async def _show(chat: Chat, rest: str) -> None:
    """: show what each agent did in the last turn."""
    from agentorchestra.cli.view.account import Work
    from agentorchestra.cli.view.model import RunView
    from agentorchestra.log.conversation import conversation

    workspace, record = chat.talk.workspace, _last(chat)
    events, result = await workspace.log.events(record.id), await workspace.runs.result(record.id)
    await chat.screen.show(*Work(RunView.of(events), result.answer_text, conversation(events)).lines())


async def _open(chat: Chat, rest: str) -> None:
    """: open the last turn as a page in the browser."""
    from agentorchestra.cli.view.html import pictures, render
    from agentorchestra.cli.view.model import RunView
    from agentorchestra.log.conversation import conversation

    workspace, record = chat.talk.workspace, _last(chat)
    events, result = await workspace.log.events(record.id), await workspace.runs.result(record.id)
    images = await pictures(result.files, workspace.store.get_blob)
    page = render(RunView.of(events), record, result, is_dead=False, talk=conversation(events), pictures=images)
    path = (chat.saved / f"{record.id}.html").absolute()
    await _write(chat, path, page)
    await chat.screen.show("its address, for a browser:", path.as_uri())
    words = ["open" if sys.platform == "darwin" else "xdg-open", str(path)]
    with suppress(OSError):  # what opens a browser, or finds none, would print into the chat
        await asyncio.to_thread(Popen, words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)


async def _tell(chat: Chat, rest: str) -> None:
    """TEXT: add to the turn that is worked on."""
    if not chat.at_work:
        raise ChatError("no turn is worked on; type the message itself, it begins the next one")
    await chat.tell(rest)


async def _save(chat: Chat, rest: str) -> None:
    """[FILE]: write the conversation as Markdown."""
    path, parts = Path(rest or f"{_last(chat).id}.md").expanduser(), list[str]()
    if path.exists():
        raise ChatError(f"{path} is there already; name another file: /save FILE")
    for turn in await chat.talk.turns():
        result = await chat.talk.workspace.runs.result(turn.id)
        answer = result.answer_text or f"({turn.status.value})"
        words = "\n\n".join([turn.manifest.task, *Ledger.of(await chat.talk.workspace.log.events(turn.id)).read_mail()])
        parts += ["## You", words, "## Answer", answer, "\n".join(account_lines(result, answer)).strip()]
    await _write(chat, path, "\n\n".join(filter(None, parts)) + "\n")


async def _cost_of(chat: Chat, turn: RunHead) -> Usage:
    """Return what a turn cost; the end of a branch is a copy, perhaps of another copy, and its original paid."""
    record: RunHead | None = turn
    usage = Usage()
    while record is not None and not usage.requests:
        usage = (await chat.talk.workspace.runs.result(record.id)).usage
        record = await chat.talk.workspace.store.get_run(record.parent_run) if record.parent_run is not None else None
    return usage


def _rows(chat: Chat, summaries: dict[str, str]) -> list[str]:
    """Return a line for each name, with the first line of its description as far as the terminal has room."""
    width = max(map(len, summaries), default=0)
    rows = (f"{name:<{width}}  {text.partition(chr(10))[0]}".rstrip() for name, text in summaries.items())
    return [cut_line(row, chat.screen.console.size.width) for row in rows]


def _last(chat: Chat) -> RunRecord:
    if chat.talk.last is None:
        raise ChatError("there is no turn yet; type a message")
    return chat.talk.last


async def _write(chat: Chat, path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as exc:
        raise ChatError(f"{path} cannot be written: {exc.strerror}; name another place") from None
    await chat.screen.show(f"written: {path}")


_TURNS = (_undo, _fork, _retry, _show, _open, _tell, _save)

COMMANDS: dict[str, Callable[[Chat, str], Awaitable[str | None]]] = {
    work.__name__[1:]: work for work in (_help, _model, _system, _files, _cost, _new, _resume, *_TURNS, _quit)
}
"""By name. The docstring says what may stand behind the name, and what it does; what it returns is sent."""
