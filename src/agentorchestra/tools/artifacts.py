"""`read_artifact`: results that were cut are kept whole, and read in parts."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

from pydantic import Field

from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import tool

CONTEXT_CHARS = 400  # characters shown around each place where a searched text stands
MOST_PLACES = 10


@tool(effect="read")
async def read_artifact(
    name: str,
    ctx: RunContext[Any],
    start: Annotated[int, Field(ge=0)] = 0,
    chars: Annotated[int, Field(ge=1, le=100_000)] = 4_000,
    search: str = "",
) -> ToolResult:
    """Read a part of an artifact: a result that was cut, or a file that the run made.

    Args:
        name: As the note in the cut result gives it.
        start: First character, from 0.
        chars: How many.
        search: In place of a part: where this text stands.
    """
    data = await ctx.read_artifact(name)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"the artifact {name!r} is no text ({len(data):,} bytes); it cannot be read in parts") from None
    source = Source(kind="tool", ref=name)
    if search:
        excerpt = _places(text, search)
    else:
        if start >= len(text) > 0:
            raise ToolError(f"start is {start:,}, and {name} has {len(text):,} characters; choose a smaller start")
        part = text[start : start + chars]
        rest = len(text) - start - len(part)
        more = f"; {rest:,} more follow, go on with start={start + len(part)}" if rest else "; this is the end"
        excerpt = f"{part}\n[characters {start:,} to {start + len(part):,} of {len(text):,}{more}]"
    return ToolResult(content=[TextBlock(text=excerpt, source=source, trust=Trust.UNTRUSTED)])


def _places(text: str, search: str) -> str:
    haystack, needle = text.casefold(), search.casefold()
    if len(haystack) != len(text):
        haystack, needle = text, search  # positions would not be those of the text
    places: list[int] = []
    at = haystack.find(needle)
    while at >= 0:
        places.append(at)
        at = haystack.find(needle, at + len(needle))
    if not places:
        words = sorted({word for word in text.split() if len(word) > 3})
        near = difflib.get_close_matches(search, words[:20_000], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"{search!r} does not stand in it ({len(text):,} characters){hint}"
    parts = []
    for place in places[:MOST_PLACES]:
        begin = max(0, place - CONTEXT_CHARS // 2)
        parts.append(f"[at {place:,}]\n{text[begin : place + len(search) + CONTEXT_CHARS // 2]}")
    more = f"\n[{len(places) - MOST_PLACES} more places]" if len(places) > MOST_PLACES else ""
    return "\n\n".join(parts) + more
