"""`agentorchestra memories entries` and `forget`: what the workspace remembers, beside the systems that remember it."""

from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import COUNT, WORDS, json_option, option, workspace_option
from agentorchestra.cli.output import emit_either, number, one_line, say
from agentorchestra.cli.workspaces import exists, opening
from agentorchestra.core.errors import UsageError
from agentorchestra.tea.memory.base import KINDS, Entry, EntryKind

_KINDS: tuple[EntryKind, ...] = ("summary", "insight")
_kinds_option = click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="Only this kind; may be repeated.  [default: summary, insight]",
)
_agent_option = option("--agent", metavar="NAME", default="", help="Only what this agent wrote.")


@async_command("entries", short_help="List what the workspace remembers.")
@option("--search", "query", metavar="TEXT", default="", help="Only what fits, best first.")
@_kinds_option
@_agent_option
@option("--limit", metavar="N", type=COUNT, help="At most this many.  [default: all]")
@json_option("a list of objects")
@workspace_option
async def entries(
    query: str, kinds: tuple[EntryKind, ...], agent: str, limit: int | None, as_json: bool, folder: Path
) -> int:
    """List the entries of the workspace's memory, newest first: name, kind, agent, trust, in how many tasks, text.

    Of insights those that hold now: what was found again stands there once, what a later task corrected does not. One
    that misled as many tasks as found it is marked, with the reason: it is not told any more, until what speaks against
    it is forgotten or another task finds it again.
    """
    rows: list[Entry] = []
    if exists(folder):
        async with opening(folder, app=False) as workspace:
            rows = await workspace.memory.recall(query, kinds=kinds or _KINDS, agent=agent, limit=limit)
    emit_either(as_json, [{"name": row.ref, **row.model_dump(mode="json")} for row in rows], map(_line, rows))
    if not rows and not as_json:
        say(f"nothing that fits is remembered in {folder}; runs remember with --memory")
    return 0


@async_command("forget", short_help="Have entries never be told again.")
@click.argument("names", metavar="[NAME]...", nargs=-1, type=WORDS)
@click.option("--all", "every", is_flag=True, help="All that `memories entries` lists with the same options.")
@_kinds_option
@_agent_option
@json_option("a list of names")
@workspace_option
async def forget(
    names: tuple[str, ...], every: bool, kinds: tuple[EntryKind, ...], agent: str, as_json: bool, folder: Path
) -> int:
    """Forget entries by the NAME that `memories entries` gives: no task from now on is told them.

    The log keeps what was written; `gc` deletes it with its runs. What a forgotten insight took the place of holds
    again.
    """
    if every == bool(names):
        raise UsageError("say what is to be forgotten: names of `agentorchestra memories entries`, or --all")
    if names and (kinds or agent):
        raise UsageError("--kind and --agent belong to --all; leave them out, or the names")

    refs: list[str] = []
    if exists(folder) or names:
        async with opening(folder, app=False) as workspace:
            targets = names
            if every:
                targets = tuple(row.ref for row in await workspace.memory.recall(kinds=kinds or _KINDS, agent=agent))
            refs = await workspace.memory.forget(targets)
    emit_either(as_json, refs, f"{number(len(refs))} {'entry is' if len(refs) == 1 else 'entries are'} forgotten")
    return 0


def _line(entry: Entry) -> str:
    times = f"  {entry.times}x" if entry.times > 1 else ""
    text = one_line(entry.text)
    if entry.against:
        text = f"against {', '.join(entry.against)}: {text}"
    if entry.misled:
        text += f" [misled {entry.misled}: {one_line(entry.why)}{'' if entry.told else '; not told any more'}]"
    return f"{entry.ref}  {entry.kind}  {entry.agent}  {entry.trust.value}{times}  {text}"
