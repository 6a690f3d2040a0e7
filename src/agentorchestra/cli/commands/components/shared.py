"""What the commands of components have in common: kinds, names with versions, the servers that hold a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from agentorchestra.cli.options import ParamType, Words
from agentorchestra.core.errors import ComponentNameError, UnknownComponentError
from agentorchestra.core.names import did_you_mean
from agentorchestra.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])

KINDS = {"tool": "tools", "environment": "environments", "agent": "agents", "prompt": "prompts", "memory": "memories"}
"""Each kind with its short form."""


class Named(NamedTuple):
    """`search` or `search@1.2.0`."""

    name: str
    version: str | None = None


class ComponentName(ParamType):
    """A component's name, with a version behind an `@` where one is meant."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Named:
        if isinstance(value, Named):
            return value
        name, at, version = Words().convert(value, param, ctx).strip().partition("@")
        if not name:
            self.fail("the name is empty", param, ctx)
        if at and not version:
            self.fail(f"there is no version behind the @ of {value!r}", param, ctx)
        return Named(name, version if at else None)


def name_argument(metavar: str = "NAME[@VERSION]") -> Callable[[F], F]:
    """`NAME` or `NAME@VERSION`, as `named`."""
    return click.argument("entry", metavar=metavar, type=ComponentName())


kind_option = click.option("--kind", type=click.Choice(list(KINDS)), help="Only this kind.  [default: all]")
"""`--kind`; the short forms have it said already."""

under_option = click.option(
    "--under",
    metavar="SCOPE",
    type=Words(),
    help="Only those of a branch of the tree, by where they came from: `package`, `code`, `mcp/NAME`.",
)

reason_option = click.option(
    "--reason", metavar="TEXT", type=Words(), default="", help="Why; it stands in the component's history."
)


def servers(workspace: Workspace[Any], kind: str | None) -> dict[str, Any]:
    every = (workspace.tcp, workspace.ecp, workspace.acp, workspace.components.prompts, workspace.components.memories)
    return {name: server for name, server in zip(KINDS, every, strict=True) if kind in (None, name)}


async def below(workspace: Workspace[Any], kind: str | None, under: str) -> dict[str, list[str]]:
    """Return the names of the components in a branch of the tree category -> toolkit -> component, by kind.

    Raises:
        UnknownComponentError: with the branches there are, where there is nothing in it.
    """
    by_kind = servers(workspace, kind)
    names = {}
    for key, server in by_kind.items():
        within = await server.retrieve("", limit=max(1, len(await server.list())), under=under)
        if within:
            names[key] = [match.config.name for match in within]
    if not names:
        head = under
        while True:  # the nearest branch above it that has any
            head = head.rpartition("/")[0]
            branches = sorted({group.path for server in by_kind.values() for group in await server.browse(head)})
            if branches or not head:
                break
        noun = KINDS[kind] if kind else "components"
        text = ", ".join(branches[:20]) or "none"
        raise UnknownComponentError(f"there are no {noun} under {under[:80]!r}; the branches there: {text}")
    return names


async def holding(workspace: Workspace[Any], kind: str | None, name: str, *, hidden: bool = False) -> dict[str, Any]:
    """Return the servers that have a component of this name, by kind; with `hidden` unregistered names count too.

    Raises:
        UnknownComponentError: with the nearest names of any of these kinds.
    """
    by_kind = servers(workspace, kind)
    holders = {}
    names: list[str] = []
    for key, server in by_kind.items():
        present = await server.list()
        names += present
        if name in present or (hidden and await _was(server, name)):
            holders[key] = server
    if not holders:
        raise UnknownComponentError(f"there is no {kind or 'component'} {name[:80]!r}; {_nearest(name, names, kind)}")
    return holders


async def only(workspace: Workspace[Any], kind: str | None, name: str, *, hidden: bool = False) -> tuple[str, Any]:
    """Return the only kind that has a component of this name, with its server; raise ComponentNameError for several."""
    holders = await holding(workspace, kind, name, hidden=hidden)
    if len(holders) > 1:
        kinds = " and ".join(holders)
        raise ComponentNameError(f"there is more than one component {name!r} ({kinds}); say which with --kind")
    return next(iter(holders.items()))


async def _was(server: Any, name: str) -> bool:
    try:
        return bool(await server.versions(name))
    except UnknownComponentError:
        return False


def _nearest(name: str, names: Sequence[str], kind: str | None) -> str:
    return did_you_mean(name, names, f"`agentorchestra {KINDS[kind] if kind else 'components'} list` shows all", n=3)
