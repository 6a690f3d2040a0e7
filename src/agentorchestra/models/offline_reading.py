"""What the offline model takes from a reading: its paragraphs, each with its own place.

The file tools show lines behind their numbers, pages and parts below a line that names them; the rules compare
questions with one paragraph at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agentorchestra.models.render import RenderedContent

_NUMBERED = re.compile(r"(\d{1,9})(, characters \d+-\d+)?\t(.*)")
_HEAD = re.compile(r"--- (.+) ---")
_APART = re.compile(r"[ \t]*(?:[-*+•]\s+\S|\(?\d{1,3}[.)]\s+\S|#{1,6}\s+\S|[\w][\w .()/%°'’-]{0,50}:\s+\S)")
"""A line that begins something of its own: an item, a heading, a label with its value."""


def pieces(contents: Iterable[RenderedContent]) -> list[RenderedContent]:
    """Readings as their paragraphs; everything else as it is."""
    found: list[RenderedContent] = []
    for content in contents:
        lines = content.text.split("\n")
        if content.kind in ("file", "web") and (_NUMBERED.fullmatch(lines[-1]) or _HEAD.fullmatch(lines[0])):
            found += _paragraphs(content, lines)
        else:
            found.append(content)
    return found


def _paragraphs(content: RenderedContent, lines: list[str]) -> Iterator[RenderedContent]:
    path = content.place.rpartition("!")[0]
    above, text, first, last = content.place, list[str](), 0, 0

    def place() -> str:
        if not first:
            return above
        span = f"line {first}" if first == last else f"lines {first}-{last}"
        return f"{path}!{span}" if path else span

    for line in [*lines, ""]:
        numbered = _NUMBERED.fullmatch(line)
        shown = numbered[3] if numbered is not None else line
        head = _HEAD.fullmatch(line)
        if text and (head is not None or not shown.strip() or _APART.match(shown)):
            yield content.model_copy(update={"text": "\n".join(text), "place": place()})
            text, first = [], 0
        if head is not None:
            named = head[1]
            above = f"{path}!{named}" if path and not named.startswith(path) else named
        elif shown.strip():
            text.append(shown)
            if numbered is not None:
                first, last = first or int(numbered[1]), int(numbered[1])


__all__ = ["pieces"]
