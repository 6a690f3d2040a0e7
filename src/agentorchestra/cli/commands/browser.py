from __future__ import annotations

import asyncio
import json
import os
import shlex
import stat
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from agentorchestra.cli.driver import async_command, at_terminal
from agentorchestra.cli.options import WORDS, workspace_option
from agentorchestra.cli.output import clean, emit, say
from agentorchestra.cli.terminal import read_line
from agentorchestra.cli.workspaces import opening
from agentorchestra.core.content import Block, MediaBlock, TextBlock
from agentorchestra.core.effects import Outcome
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.spec import Question

NAME = "browser"
OWN = {"state": "the page as an agent sees it", "help [ACTION]": "the actions, or what one takes", "quit": "end"}
"""Commands that are no actions of the environment."""


@async_command(
    epilog="""\b
Examples:
  agentorchestra browser https://example.org
  printf 'click e6\\nstate\\n' | agentorchestra browser https://example.org

\b
Commands, one a line (help lists all of them with what they take):
  state                         the page as an agent sees it
  click e12                     an action, its arguments in their order
  input_text ref=e5 text="hello"
                                or by name; `site` may be left out
  screenshot page.png           the picture goes to a file
  help click                    what an action takes
  quit

\b
Exit codes: 0 ended, 1 an action failed and the commands came from a pipe,
2 wrong usage, no extra or no browser, 130 stopped."""
)
@click.argument("url", metavar="[URL]", type=WORDS, required=False)
@workspace_option
async def browser(url: str | None, folder: Path) -> int:
    """Open URL in the environment `browser`, show the page as an agent sees it, and act on it.

    For people who write agents: the same actions, the same state, the same limits and boundaries as in a run, with the
    settings of the workspace. What is downloaded stays in the folder that is named at the end.
    """
    async with opening(folder, app=False) as workspace:
        workspace.asker = hand = Hand(workspace)
        await hand.ready()
        if url is not None:
            await hand.do(f"go_to_url {shlex.quote(url)}")
            await hand.do("state")
        async for line in _lines():
            if line.strip() in ("quit", "exit"):
                break
            await hand.do(line)
        place = hand.files_folder()
    if place is not None:
        say(f"files in {place}")
    return int(hand.failed and not at_terminal())


class Hand:
    """The environment in the hands of a person."""

    by = "terminal"

    def __init__(self, workspace: Any) -> None:
        self._workspace = workspace
        self._actions: Mapping[str, ToolSchema] = {}
        self._site = ""
        self.failed = False  # whether any action did

    async def __call__(self, question: Question) -> str | bool | None:
        """Answer what policy would ask; ask the person what the action itself asks."""
        if question.kind == "approval":
            return True
        say(question.question)
        return await read_line("Answer: ") if at_terminal() else None

    async def ready(self) -> None:
        """Know the actions; raise MissingExtraError or UsageError where there is no browser to be had."""
        environment = (await self._workspace.ecp.get(NAME))()
        check = getattr(environment, "check", None)
        if check is not None:
            check()
        self._actions = {action.name: action for action in environment.actions()}

    async def do(self, line: str) -> None:
        """Carry out one command; say in a sentence what is wrong with it."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as exc:
            return self._fail(f"{line.strip()!r} cannot be read: {exc}")
        if not words:
            return None
        name, rest = words[0].removeprefix(f"{NAME}_"), words[1:]
        if name == "help":
            return self._help(rest[0].removeprefix(f"{NAME}_") if rest else "")
        if name == "state":
            return self._print(await self._workspace.ecp.state(NAME))
        schema = self._actions.get(name)
        if schema is None:
            return self._fail(f"there is no command {name!r}; `help` lists them")
        target = rest.pop() if name == "screenshot" and rest and _is_file(rest[-1]) else ""
        arguments, problem = arguments_of(schema, rest, {"site": self._site})
        if problem:
            return self._fail(problem)
        outcome: Outcome = await self._workspace.ecp.invoke(NAME, name, arguments)
        sources = [block.source for block in outcome.blocks() if block.source is not None]
        pages = [source.ref for source in sources if source.kind == "web"]
        self._site = urlsplit(pages[-1]).netloc if pages else self._site
        if not outcome.ok:
            return self._fail(outcome.error or outcome.status)
        if target:
            return await self._save(outcome, Path(target))
        return self._print(outcome.blocks())

    async def _save(self, outcome: Outcome, target: Path) -> None:
        pictures = [block.sha256 for block in outcome.blocks() if isinstance(block, MediaBlock)]
        pictures += [artifact.sha256 for artifact in outcome.artifacts]
        if not pictures:
            return self._fail("there is no picture in the result")
        data = await self._workspace.store.get_blob(pictures[0])
        try:
            await asyncio.to_thread(target.write_bytes, data)
        except OSError as exc:
            return self._fail(f"{target} cannot be written: {exc.strerror or exc}")
        emit(f"{target} ({len(data):,} bytes)")
        return None

    def _help(self, name: str) -> None:
        if name:
            schema = self._actions.get(name)
            if schema is None:
                return self._fail(f"there is no action {name!r}; `help` lists them")
            emit(clean(f"{usage_of(schema)}\n{schema.description}"))
            for key, field in _properties(schema).items():
                emit(clean(f"  {key} ({_type_of(field)}): {field.get('description', '')}".rstrip()))
            return None
        for command, sentence in OWN.items():
            emit(f"{command}: {sentence}")
        for schema in self._actions.values():
            first = schema.description.strip().partition("\n")[0]
            emit(clean(f"{usage_of(schema)}: {first}"))
        return None

    def _print(self, blocks: tuple[Block, ...]) -> None:
        for block in blocks:
            if isinstance(block, TextBlock):
                emit(clean(block.text))
            else:
                emit(clean(f"[{block.media_type}, {block.size:,} bytes]"))

    def _fail(self, sentence: str) -> None:
        self.failed = True
        emit(clean(f"error: {sentence}"))

    def files_folder(self) -> Path | None:
        run_id = self._workspace.runs.calls
        folder: Path | None = self._workspace.files.folder(run_id) if run_id is not None else None
        return folder if folder is not None and folder.is_dir() and any(folder.iterdir()) else None


# -- arguments ---------------------------------------------------------------------------------------------------------


def arguments_of(schema: ToolSchema, words: Sequence[str], defaults: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Return the arguments of the words, in order or as `name=value`, and what is wrong; `defaults` may be left out."""
    properties = _properties(schema)
    required = list(schema.parameters.get("required", ()))
    order = [*required, *(name for name in properties if name not in required)]
    values: dict[str, Any] = {}
    for word in words:
        name, mark, value = word.partition("=")
        if not mark or name not in properties:
            free = [key for key in order if key not in values]
            if not free:
                return {}, f"{schema.name} takes no {word!r}; {usage_of(schema)}"
            name, value = free[0], word
        values[name] = _parse(value, properties[name])
    values |= {name: value for name, value in defaults.items() if name in required and name not in values and value}
    missing = [name for name in required if name not in values]
    if missing:
        return {}, f"{schema.name} needs {', '.join(missing)}; {usage_of(schema)}"
    return values, ""


def usage_of(schema: ToolSchema) -> str:
    """Return an action with its arguments: `click REF [count=COUNT]`."""
    required = list(schema.parameters.get("required", ()))
    rest = [f"[{name}={name.upper()}]" for name in _properties(schema) if name not in required]
    return " ".join([schema.name, *(name.upper() for name in required), *rest])


def _properties(schema: ToolSchema) -> dict[str, dict[str, Any]]:
    properties: dict[str, dict[str, Any]] = schema.parameters.get("properties", {})
    return properties


def _types(field: dict[str, Any]) -> set[str]:
    types = {str(part.get("type", "")) for part in field.get("anyOf", ())}
    kind = field.get("type")
    return types | ({kind} if isinstance(kind, str) else {*kind} if isinstance(kind, list) else set())


def _type_of(field: dict[str, Any]) -> str:
    values = field.get("enum")
    if values:
        return " | ".join(json.dumps(value) for value in values)
    return " or ".join(sorted(filter(None, _types(field)))) or "text"


def _parse(word: str, field: dict[str, Any]) -> Any:
    types = _types(field)
    if "string" in types or (not types and "enum" in field):
        return word
    try:
        return json.loads(word)
    except ValueError:
        return [word] if "array" in types else word


def _is_file(word: str) -> bool:
    return "=" not in word and ("." in word or "/" in word)


# -- lines -------------------------------------------------------------------------------------------------------------


async def _lines() -> AsyncIterator[str]:
    """Yield what is typed, or comes from a pipe or a file, line by line to its end."""
    if at_terminal():
        while (line := await read_line("browser> ")) is not None:
            yield line
        return
    try:
        source = sys.stdin.fileno()
    except (OSError, ValueError):  # closed
        return
    rest = b""
    while data := await _read(source):
        *whole, rest = (rest + data).split(b"\n")
        for line_bytes in whole:
            yield line_bytes.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


async def _read(source: int) -> bytes:
    """Return the next bytes; b"" at the end. No thread waits for them, so that Ctrl-C ends it."""
    if not stat.S_ISREG(os.fstat(source).st_mode):
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(source, _settle, ready)
        except OSError:  # what cannot be waited for is there at once (/dev/null)
            return os.read(source, 65_536)
        try:
            await ready
        finally:
            loop.remove_reader(source)
    return os.read(source, 65_536)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
