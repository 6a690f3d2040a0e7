"""`search_files`: the passages that hold the words of a query."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agentorchestra.core.content import Block
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tools.files.common import best_passages, block, how_to_look, note, only_pictures
from agentorchestra.tools.files.documents import joined
from agentorchestra.tools.files.folders import by_folder, matching
from agentorchestra.tools.files.index import PassageIndex, query_words
from agentorchestra.tools.files.indexer import Standing, bring_up
from agentorchestra.tools.files.passages import Passage

NAMED = 5  # files that could not be searched and are named; the others are counted
FEW = 10  # up to this many files are named where nothing was found, and no figures are given


async def search_passages(
    ctx: RunContext[Any], index: PassageIndex, query: str, limit: int, files: str | None = None
) -> ToolResult:
    if not ctx.manifest.files:
        raise ToolError("This task has no files to search; answer without them.")
    if not query_words(query):
        raise ToolError(f"The query {query!r} holds no word to search for; give names, numbers or terms.")
    if not 1 <= limit <= 50:
        raise ToolError(f"limit is {limit}; give a number from 1 to 50.")
    chosen = chosen_files(ctx, files)
    standing = await bring_up(ctx, index, chosen)
    problems = _problems(chosen, standing)
    searched = [one for one in chosen if one.sha256 in standing.readable]
    if not searched:
        raise ToolError(" ".join(problems) or "None of the files could be read in time; search again to go on.")
    names: dict[str, str] = {}
    for one in searched:
        names.setdefault(one.sha256, one.name)
    slow = f"The query {query!r} takes too long: its words are in too many passages; give rarer words or fewer files."
    hits = await best_passages(index, query, list(names), limit, ToolError(slow))
    blocks: list[Block] = [block(names[hit.sha256], Passage(hit.place, hit.text)) for hit in hits]
    if not hits:
        where = ", ".join(one.name for one in searched) if len(searched) <= FEW else f"{len(searched):,} files"
        blocks.append(note(f"No passage of {where} holds a word of the query {query!r}."))
    blocks.extend(note(f"Not searched: {problem}") for problem in problems)
    blocks.extend(await _pictured(ctx, index, names))
    if standing.left:
        blocks.append(
            note(
                f"{len(searched):,} of {len(chosen):,} files are read so far; search again to go on with the others, "
                "or narrow the search with `files`."
            )
        )
    elif len(chosen) > FEW:
        narrowed = f" matching {files!r}" if files else ""
        blocks.append(note(f"Searched {len(searched):,} of {len(chosen):,} files{narrowed}."))
    return ToolResult(content=blocks)


async def _pictured(ctx: RunContext[Any], index: PassageIndex, names: dict[str, str]) -> list[Block]:
    """Return the pages of the searched files that no search finds, those of the first files by name."""
    found = await asyncio.to_thread(index.pictures, names)
    said = [joined(name, found[sha256]) for sha256, name in names.items() if sha256 in found][:NAMED]
    if len(found) > NAMED:
        said.append(f"pages of {len(found) - NAMED:,} more files")
    return [note(f"Not searched: {only_pictures(', '.join(said), how_to_look(ctx))}.")] if said else []


def chosen_files(ctx: RunContext[Any], pattern: str | None) -> list[FileRef]:
    """Return the task's files that a pattern names; a ToolError lists the folders where it names none."""
    found = matching(ctx.manifest.files, pattern)
    if not found and ctx.manifest.files:
        listed = "; ".join(by_folder(ctx.manifest.files))
        raise ToolError(f"No file of this task matches {pattern!r}; give e.g. 'docs/*.md'. There are: {listed}.")
    return found


def _problems(files: Sequence[FileRef], standing: Standing) -> list[str]:
    """Return a sentence for each of the first files that cannot be searched, and one that counts the others."""
    failed = [one for one in files if one.sha256 in standing.problems]
    said = [standing.problems[one.sha256].replace("{name}", one.name) for one in failed[:NAMED]]
    if len(failed) > NAMED:
        said.append(f"{len(failed) - NAMED:,} more files that hold no text or cannot be read.")
    return said
