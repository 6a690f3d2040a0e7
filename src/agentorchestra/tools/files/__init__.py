"""The tools that read and search the files of a run, and what they are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tools.files.common import with_index
from agentorchestra.tools.files.description import Quote, check, describe_matching, search_passages
from agentorchestra.tools.files.index import PassageIndex
from agentorchestra.tools.files.quotes import verify_quote
from agentorchestra.tools.files.read import read_part, shown_whole
from agentorchestra.tools.files.readers import check_input, read_document
from agentorchestra.tools.files.worker import LIMITS


def file_tools(folder: Path | None = None) -> tuple[Tool[..., Any], ...]:
    """Return the tools that read and search files.

    Args:
        folder: where the search index lies (index.db, keyed by the files' hashes); None for each run's own folder.
    """

    @tool(effect="read")
    async def read_file(
        ctx: RunContext[Any],
        name: str,
        part: str | None = None,
        view_range: list[int] | None = None,
        encoding: str | None = None,
    ) -> ToolResult:
        """Read a file of the task, whole or a part of it, with the places of what it holds; text comes exactly.

        Args:
            name: Its name as listed.
            part: "p. 3", "rows 7-20", "B2:D9", "Sales!B2:D9", "slide 3", "inner.zip!data.csv!row 7", "line 1,
                characters 5000-9000", "source" for the text of HTML or CSV, of a video "frame 00:12".
            view_range: The first and the last line, [1, 400]; [401, -1] is to the end.
            encoding: Of its text, e.g. "cp1251", where the result says that it is a guess.
        """
        arguments = (name, part or "", view_range or (), encoding or "")
        return await with_index(folder or ctx.folder, lambda index: read_part(ctx, index, *arguments))

    @tool(effect="read")
    async def search_files(ctx: RunContext[Any], query: str, limit: int = 5, files: str | None = None) -> ToolResult:
        """Find passages of the task's files by their words, best first, with their places.

        Args:
            query: A few names, numbers or terms that the passage will contain.
            limit: Passages at most, 1 to 50.
            files: Only these, e.g. "docs/2023/*.md".
        """
        return await with_index(folder or ctx.folder, lambda index: search_passages(ctx, index, query, limit, files))

    @tool(effect="read")
    async def describe_files(ctx: RunContext[Any], files: str | None = None) -> ToolResult:
        """What this task's files are: size, type, pages, lines, rows and the names of the columns, parts.

        Args:
            files: Which files to describe, e.g. "docs/2023/*.md" or "docs/2023"; all without it.
        """
        return await with_index(folder or ctx.folder, lambda index: describe_matching(ctx, index, files))

    @tool(effect="read")
    async def check_quotes(ctx: RunContext[Any], quotes: list[Quote]) -> list[bool | str | None]:
        """Check whether quotes stand at their places: true, false, the place where one stands instead, or null.

        Null is for pages that nobody fetched, and for pictures. Marks of a format, white space and kinds of dashes and
        quotation marks make no difference. Pages of the web are taken as they were when this run fetched them.

        Args:
            quotes: The quotes with the file or address and the place each is said to stand at.
        """
        return await with_index(folder or ctx.folder, lambda index: check(ctx, index, quotes))

    @tool(effect="read", cut=False)
    async def files_in_view(ctx: RunContext[Any], chars: int, new: bool = False, pictures: int = 0) -> ToolResult:
        """The files of this task that are short, whole, and its first pictures, for an agent's first prompt.

        Args:
            chars: Of converted text, of all files together.
            new: Only those that came with this turn.
            pictures: How many pictures at most, as large as models read them.
        """
        return await with_index(folder or ctx.folder, lambda index: shown_whole(ctx, index, chars, pictures, new=new))

    return read_file, search_files, describe_files, check_quotes, files_in_view


read_file, search_files, describe_files, check_quotes, files_in_view = file_tools()

__all__ = [
    "LIMITS",
    "PassageIndex",
    "check_input",
    "check_quotes",
    "describe_files",
    "file_tools",
    "files_in_view",
    "read_document",
    "read_file",
    "search_files",
    "verify_quote",
]
