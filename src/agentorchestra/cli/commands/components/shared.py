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
    return click.argument("named", metavar=metavar, type=ComponentName())


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
    return {name: one for name, one in zip(KINDS, every, strict=True) if kind in (None, name)}


async def below(workspace: Workspace[Any], kind: str | None, under: str) -> dict[str, list[str]]:
    """Return the names of the components in a branch of the tree category -> toolkit -> component, by kind.

    Raises:
        UnknownComponentError: with the branches there are, where there is nothing in it.
    """
    asked = servers(workspace, kind)
    found = {}
    for one, server in asked.items():
        within = await server.retrieve("", limit=max(1, len(await server.list())), under=under)
        if within:
            found[one] = [each.config.name for each in within]
    if not found:
        head = under
        while True:  # the nearest branch above it that has any
            head = head.rpartition("/")[0]
            branches = sorted({group.path for server in asked.values() for group in await server.browse(head)})
            if branches or not head:
                break
        what = KINDS[kind] if kind else "components"
        listed = ", ".join(branches[:20]) or "none"
        raise UnknownComponentError(f"there are no {what} under {under[:80]!r}; the branches there: {listed}")
    return found


async def holding(workspace: Workspace[Any], kind: str | None, name: str, *, hidden: bool = False) -> dict[str, Any]:
    """Return the servers that have a component of this name, by kind; with `hidden` unregistered names count too.

    Raises:
        UnknownComponentError: with the nearest names of any of these kinds.
    """
    asked = servers(workspace, kind)
    found = {}
    names: list[str] = []
    for one, server in asked.items():
        listed = await server.list()
        names += listed
        if name in listed or (hidden and await _was(server, name)):
            found[one] = server
    if not found:
        raise UnknownComponentError(f"there is no {kind or 'component'} {name[:80]!r}; {_nearest(name, names, kind)}")
    return found


async def only(workspace: Workspace[Any], kind: str | None, name: str, *, hidden: bool = False) -> tuple[str, Any]:
    """Return the only kind that has a component of this name, with its server; raise ComponentNameError for several."""
    found = await holding(workspace, kind, name, hidden=hidden)
    if len(found) > 1:
        kinds = " and ".join(found)
        raise ComponentNameError(f"there is more than one component {name!r} ({kinds}); say which with --kind")
    return next(iter(found.items()))


async def _was(server: Any, name: str) -> bool:
    try:
        return bool(await server.versions(name))
    except UnknownComponentError:
        return False


def _nearest(name: str, names: Sequence[str], kind: str | None) -> str:
    return did_you_mean(name, names, f"`agentorchestra {KINDS[kind] if kind else 'components'} list` shows all", n=3)
