"""`components list|info|search|versions|diff|contract`: what there is."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agentorchestra.cli.commands.components.shared import (
    KINDS,
    Named,
    below,
    holding,
    kind_option,
    name_argument,
    only,
    servers,
    under_option,
)
from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import COUNT, WORDS, json_option, mcp_option, option, workspace_option
from agentorchestra.cli.output import (
    clean,
    colour_line,
    emit,
    emit_either,
    emit_json,
    local_time,
    number,
    one_line,
    plural,
    say,
)
from agentorchestra.cli.workspaces import opening
from agentorchestra.tea.registry.config import ComponentConfig
from agentorchestra.tea.registry.context import VersionDifference
from agentorchestra.tea.registry.history import Version

_OWN = ("", "package", "code", "register")  # where components come from without a word about it in a list


@async_command("list", short_help="One line for each component.")
@kind_option
@under_option
@json_option("a list of objects")
@mcp_option
@workspace_option
async def list_(kind: str | None, under: str | None, as_json: bool, folder: Path) -> int:
    """Print one line for each component: kind, name and version, and what it is for.

    `--under` leaves out what is not offered any more: components that are deprecated or archived.
    """
    rows: list[ComponentConfig] = []
    failures: dict[tuple[str, str], str] = {}
    async with opening(folder) as workspace:
        within = None if under is None else await below(workspace, kind, under)
        for label, server in servers(workspace, kind).items():
            names = await server.list() if within is None else within.get(label, [])
            rows += [await server.info(name) for name in names]
            problems = server.stock.failures().items()
            failures |= {(label, name): reason for name, reason in problems if within is None or name in names}
        for note in workspace.components.notes:
            say(clean(f"warning: {note}"))
    if as_json:
        emit_json([{**row.model_dump(mode="json"), "failure": failures.get((row.kind, row.name))} for row in rows])
        return 0
    width = max((len(row.component) for row in rows), default=0)
    for row in rows:
        marks = _marks(row, failed=(row.kind, row.name) in failures)
        emit(clean(f"{row.kind:<11}  {row.component:<{width}}  {one_line(row.entry.partition(': ')[2], 90)}{marks}"))
    for (label, name), failure in failures.items():
        say(f"{label} {name} cannot be used here: {one_line(failure, 500)}")
    return 0


def _marks(config: ComponentConfig, *, failed: bool) -> str:
    marks = [] if config.builtin else ["yours" if config.origin in _OWN else one_line(config.origin, 40)]
    marks += [config.state] if config.state != "active" else []
    marks += ["cannot be used"] if failed else []
    return f"  ({', '.join(marks)})" if marks else ""


@async_command("info", short_help="Everything that is known of one component.")
@name_argument()
@kind_option
@json_option("one object with the schemas of its operations, a list of them where several kinds have the name")
@mcp_option
@workspace_option
async def info(entry: Named, kind: str | None, as_json: bool, folder: Path) -> int:
    """Print what the component NAME is for, its version, and the parameters of its operations."""
    async with opening(folder) as workspace:
        holders = await holding(workspace, kind, entry.name, hidden=entry.version is not None)
        if entry.version is not None and len(holders) > 1:
            holders = dict([await only(workspace, kind, entry.name, hidden=True)])
        rows = [await server.info(entry.name, entry.version) for server in holders.values()]
        beside = [version for server in holders.values() for version in await server.versions(entry.name)]
    if as_json:
        emit_json(rows[0] if len(rows) == 1 else rows)
        return 0
    for row in rows:
        emit(clean(f"{row.kind}{_marks(row, failed=False)}\n\n{row.text}"))
    for row in beside if entry.version is None else ():
        if row.state == "candidate":
            say(clean(f"candidate {row.version}: {_lineage(row)}"))
    return 0


@async_command("search", short_help="The components that fit a task, best first.")
@click.argument("query", metavar="QUERY", type=WORDS)
@kind_option
@under_option
@option("--limit", metavar="N", type=COUNT, default=10, help="At most so many.")
@json_option("a list of objects with their scores")
@mcp_option
@workspace_option
async def search(query: str, kind: str | None, under: str | None, limit: int, as_json: bool, folder: Path) -> int:
    """Print the components that fit QUERY, best first, by words and pieces of words.

    Scores compare components of one kind within one search.
    """
    async with opening(folder) as workspace:
        if under is not None:
            await below(workspace, kind, under)
        managers = servers(workspace, kind).values()
        hits = [hit for server in managers for hit in await server.retrieve(query, limit=limit, under=under)]
    best = sorted(hits, key=lambda hit: -hit.score)[:limit]
    if as_json:
        emit_json([{"score": hit.score, **hit.config.model_dump(mode="json")} for hit in best])
        return 0
    for hit in best:
        emit(clean(f"{hit.score:.2f}  {hit.config.kind:<11}  {one_line(hit.config.entry, 110)}"))
    if not best:
        suffix = f" --under {under}" if under else ""
        noun = KINDS[kind] if kind else "components"
        say(f"nothing fits {query!r}; `agentorchestra {noun} list{suffix}` shows all")
    return 0


@async_command("versions", short_help="Every version of one component, and what changed.")
@name_argument("NAME")
@kind_option
@json_option("a list of objects")
@workspace_option
async def versions(entry: Named, kind: str | None, as_json: bool, folder: Path) -> int:
    """Print every version of the component NAME: when it was made, by whom and why, from what, in which run, and below
    it what changed since the one before.

    A `*` marks the version that the name means. Components that were unregistered have their versions too.
    """
    async with opening(folder) as workspace:
        label, server = await only(workspace, kind, entry.name, hidden=True)
        rows = await server.versions(entry.name)
        current = (await server.info(entry.name)).version if entry.name in await server.list() else None
        pairs = zip(rows, rows[1:] if not as_json else (), strict=False)
        changes = {new.version: await server.diff(entry.name, old.version, new.version) for old, new in pairs}
    if as_json:
        emit_json([{"kind": label, "current": row.version == current, **row.model_dump(mode="json")} for row in rows])
        return 0
    for row in rows:
        mark = "*" if row.version == current else " "
        emit(clean(f"{mark} {row.version:<9}  {row.state:<10}  {local_time(row.created)}  {_lineage(row)}".rstrip()))
        if row.version in changes:
            emit(clean(f"    {_changed(changes[row.version])}"))
    if current is None:
        say(f"{label} {entry.name} is not registered any more; `agentorchestra components restore` brings it back")
    return 0


def _changed(change: VersionDifference) -> str:
    lines = change.text.splitlines()[2:]  # below the names of the two
    came, went = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    phrases = [f"{plural(came, 'line')} more and {number(went)} less since {change.before}", *change.changes]
    return one_line(f"{change.level}: {'; '.join(phrases)}", 200)


def _lineage(version: Version) -> str:
    parts = [
        f"by {version.author}" if version.author else "",
        one_line(version.reason, 80),
        f"from {version.parent}" if version.parent else "",
        version.run,
        version.origin if version.origin not in _OWN else "",
        f"came with agentorchestra {version.distribution}" if version.distribution else "",
        one_line(version.why, 80),
    ]
    return ", ".join(part for part in parts if part)


@async_command("diff", short_help="What differs between two versions of a component.")
@name_argument("NAME")
@click.argument("before", metavar="A", type=WORDS)
@click.argument("after", metavar="[B]", type=WORDS, required=False)
@kind_option
@json_option("one object")
@workspace_option
async def diff(entry: Named, before: str, after: str | None, kind: str | None, as_json: bool, folder: Path) -> int:
    """Print what changed in the component NAME from version A to version B, the current one by default.

    First what it means for callers (major: they must change, minor: they may, patch: nothing), then the lines of the
    texts that differ.
    """
    async with opening(folder) as workspace:
        label, server = await only(workspace, kind, entry.name, hidden=True)
        difference = await server.diff(entry.name, before, after)
    if as_json:
        emit_json({"kind": label, **difference.model_dump(mode="json")})
        return 0
    emit(clean(f"{label} {difference.name}: {difference.before} -> {difference.after}, {difference.level}"))
    for change in difference.changes:
        emit(clean(f"  {one_line(change, 200)}"))
    if difference.text:
        emit("\n" + "\n".join(colour_line(line, sys.stdout) for line in difference.text.splitlines()))
    return 0


@async_command("contract", short_help="One document about all components of a kind.")
@kind_option
@json_option("a list with an object for each kind")
@mcp_option
@workspace_option
async def contract(kind: str | None, as_json: bool, folder: Path) -> int:
    """Print one Markdown document for each kind that describes all its components, with their parameters."""
    async with opening(folder) as workspace:
        texts = {key: await server.contract() for key, server in servers(workspace, kind).items()}
    whole = "\n".join(text.rstrip("\n") + "\n" for text in texts.values()).rstrip("\n")
    emit_either(as_json, [{"kind": key, "contract": text} for key, text in texts.items()], whole)
    return 0
