"""`search_files`: the passages that hold the words of a query."""

from __future__ import annotations

import asyncio
from typing import Any

from agentorchestra.core.content import Block
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.tool import ToolResult
from agentorchestra.tools.files.common import block, document_of, note
from agentorchestra.tools.files.index import PassageIndex, query_words
from agentorchestra.tools.files.passages import Passage


async def search_passages(ctx: RunContext[Any], index: PassageIndex, query: str, limit: int) -> ToolResult:
    if not ctx.manifest.files:
        raise ToolError("This task has no files to search; answer without them.")
    if not query_words(query):
        raise ToolError(f"The query {query!r} holds no word to search for; give names, numbers or terms.")
    if not 1 <= limit <= 50:
        raise ToolError(f"limit is {limit}; give a number from 1 to 50.")
    names: dict[str, str] = {}
    problems: list[str] = []
    for ref in ctx.manifest.files:
        try:
            if not await asyncio.to_thread(index.has, ref.sha256):
                await document_of(ctx, ref, index, add=True)
            names.setdefault(ref.sha256, ref.name)
        except ToolError as error:  # one bad file must not hide the others
            problems.append(str(error))
    if not names:
        raise ToolError(" ".join(problems))
    hits = await asyncio.to_thread(index.search, query, list(names), limit)
    blocks: list[Block] = [block(names[hit.sha256], Passage(hit.place, hit.text)) for hit in hits]
    if not hits:
        blocks.append(note(f"No passage of {', '.join(names.values())} holds a word of the query {query!r}."))
    blocks.extend(note(f"Not searched: {problem}") for problem in problems)
    return ToolResult(content=blocks)
