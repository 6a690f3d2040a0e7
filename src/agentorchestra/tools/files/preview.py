"""`files_in_view`: short files whole, for an agent's first prompt. Code calls it; nobody is offered it."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.content import Block, TextBlock
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef
from agentorchestra.tea.calling.tool import ToolResult
from agentorchestra.tools.files.common import document_of
from agentorchestra.tools.files.documents import Document, PdfDocument, TableDocument, TextDocument, leaves
from agentorchestra.tools.files.index import PassageIndex
from agentorchestra.tools.files.media import is_media
from agentorchestra.tools.files.read import NO_NEWLINE, read_part, room_for

MOST_FILES = 20  # files of a task that are looked at; of more, none is shown
MOST_BYTES = 5_000_000  # of a file that is converted only to see how long it is
_BYTES_PER_CHAR = 4


async def shown_whole(ctx: RunContext[Any], index: PassageIndex, chars: int) -> ToolResult:
    """Return the files that are short enough, in the order of the task, as `read_file` gives them.

    `chars` is how much converted text they may have together.
    """
    files = ctx.manifest.files
    left = min(chars, room_for(ctx))  # what one reading gives is the whole of a file that is no longer
    blocks: list[Block] = []
    for ref in files if len(files) <= MOST_FILES else ():
        if is_media(ref.media_type) or not _may_be_short(ref, left):
            continue
        try:
            document = await document_of(ctx, ref, index)
            length = length_of(document)
            if not 0 < length <= left:
                continue
            read = await read_part(ctx, index, ref.name)
        except ToolError:
            continue  # whoever reads it is told what is wrong with it
        content = read.content if isinstance(read.content, list) else []
        blocks += [one for one in content if not (isinstance(one, TextBlock) and one.text == NO_NEWLINE)]
        left -= length
    return ToolResult(content=blocks)


def _may_be_short(ref: FileRef, chars: int) -> bool:
    """Return True if a file has to be converted to see how long its text is."""
    return ref.size <= (chars * _BYTES_PER_CHAR if ref.media_type.startswith("text/") else MOST_BYTES)


def length_of(document: Document) -> int:
    """Return characters of a document's text; 0 where a part of it can only be looked at."""
    spent = 0
    for _, leaf in leaves(document):
        if isinstance(leaf, TextDocument):
            if is_media(leaf.media_type):
                return 0
            spent += len(leaf.text)
        elif isinstance(leaf, PdfDocument):
            if leaf.pictured:
                return 0
            spent += sum(map(len, leaf.pages))
        elif isinstance(leaf, TableDocument):
            spent += sum(len(cell) + 1 for row in (leaf.header, *leaf.rows) for cell in row)
    return spent


__all__ = ["MOST_FILES", "length_of", "shown_whole"]
