"""`agentorchestra components`: which tools, environments, agents and prompts a workspace has, and which fit a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentorchestra.cli.driving import Stop, run_async
from agentorchestra.cli.options import WORDS, json_option, workspace_option
from agentorchestra.cli.output import clean, emit, emit_json, one_line, say
from agentorchestra.cli.workspaces import opened
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])

KINDS = ("tool", "environment", "agent", "prompt")


def _kind_option(required: bool = False) -> Callable[[F], F]:
    return click.option(
        "--kind",
        type=click.Choice(KINDS),
        required=required,
        help="Of which kind." if required else "Only this kind.  [default: all]",
    )


@click.group(
    short_help="List, describe and find tools, environments, agents and prompts.",
    epilog="""\b
Examples:
  agentorchestra components list
  agentorchestra components search "look something up in the documents"
  agentorchestra components info read_file --kind tool --json
  agentorchestra components contract --kind agent

\b
Exit codes: 0; 2 for a name that is not there.""",
)
def components() -> None:
    """Show what runs of this workspace are made of: the packaged components and those of its application."""


@components.command("list", short_help="One line for each component.")
@_kind_option()
@json_option("a list of objects")
@workspace_option
def list_(kind: str | None, as_json: bool, folder: Path) -> int:
    """Print one line for each component: kind, name and version, and what it is for."""

    async def work(stop: Stop) -> int:
        async with opened(folder) as workspace:
            found = [await server.info(name) for server in _servers(workspace, kind) for name in await server.list()]
        if as_json:
            emit_json([one.model_dump(mode="json") for one in found])
            return 0
        width = max((len(one.component) for one in found), default=0)
        for one in found:
            own = "" if one.builtin else "  (yours)"
            emit(clean(f"{one.kind:<11}  {one.component:<{width}}  {one_line(one.entry.partition(': ')[2], 90)}{own}"))
        return 0

    return run_async(work)


@components.command("info", short_help="Everything that is known of one component.")
@click.argument("name", metavar="NAME", type=WORDS)
@_kind_option()
@json_option("one object, with the schemas of its operations")
@workspace_option
def info(name: str, kind: str | None, as_json: bool, folder: Path) -> int:
    """Print what the component NAME is for, its version, and the parameters of its operations."""

    async def work(stop: Stop) -> int:
        async with opened(folder) as workspace:
            servers = _servers(workspace, kind)
            holding = [server for server in servers if name in await server.list()]
            if not holding:
                raise await _unknown(servers, name)
            found = [await server.info(name) for server in holding]
        if as_json:
            emit_json(
                found[0].model_dump(mode="json") if len(found) == 1 else [o.model_dump(mode="json") for o in found]
            )
            return 0
        for one in found:
            emit(clean(f"{one.kind}{'' if one.builtin else ' (yours)'}\n\n{one.text}"))
        return 0

    return run_async(work)


@components.command("search", short_help="The components that fit a task, best first.")
@click.argument("query", metavar="QUERY", type=WORDS)
@_kind_option()
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many."
)
@json_option("a list of objects with their scores")
@workspace_option
def search(query: str, kind: str | None, limit: int, as_json: bool, folder: Path) -> int:
    """Print the components that fit QUERY, best first, by words and pieces of words; no model is asked.

    Scores compare components of one kind within one search.
    """

    async def work(stop: Stop) -> int:
        async with opened(folder) as workspace:
            found = [one for server in _servers(workspace, kind) for one in await server.retrieve(query, limit=limit)]
        best = sorted(found, key=lambda one: -one.score)[:limit]
        if as_json:
            emit_json([{"score": one.score, **one.config.model_dump(mode="json")} for one in best])
            return 0
        for one in best:
            emit(clean(f"{one.score:.2f}  {one.config.kind:<11}  {one_line(one.config.entry, 110)}"))
        if not best:
            say(f"nothing fits {query!r}; `agentorchestra components list` shows all")
        return 0

    return run_async(work)


@components.command("contract", short_help="One document about all components of a kind.")
@_kind_option(required=True)
@workspace_option
def contract(kind: str, folder: Path) -> int:
    """Print one Markdown document that describes all components of a kind, with their parameters."""

    async def work(stop: Stop) -> int:
        async with opened(folder) as workspace:
            (server,) = _servers(workspace, kind)
            emit(clean(await server.contract()))
        return 0

    return run_async(work)


def _servers(workspace: Workspace[Any], kind: str | None) -> list[Any]:
    named = dict(zip(KINDS, (workspace.tcp, workspace.ecp, workspace.acp, workspace.prompt_components), strict=True))
    return [server for name, server in named.items() if kind in (None, name)]


async def _unknown(servers: list[Any], name: str) -> UnknownComponentError:
    """The sentence with the nearest names, of the kind that has the nearest."""
    import difflib

    names = [one for listed in await asyncio.gather(*(server.list() for server in servers)) for one in listed]
    close = difflib.get_close_matches(name, names, n=3)
    guess = f"did you mean {' or '.join(close)}?" if close else "`agentorchestra components list` shows all"
    return UnknownComponentError(f"there is no component {name!r}; {guess}")
