"""What the offline model takes from a reading: its sentences, each with the place that the file tools show for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agentorchestra.models.render import RenderedContent

_LINE = re.compile(r"(\d{1,9})(, characters \d+-\d+)?\t(.*)")
_APART = re.compile(r"[ \t]*(?:[-*+•]\s+\S|\(?\d{1,3}[.)]\s+\S|#{1,6}\s+\S|[\w][\w .()/%°'’-]{0,50}:\s+\S)")
"""A line that begins something of its own: an item, a heading, a label with its value."""

_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{3}[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-ZÀ-Þ])|(?<=\d[.!?])\s+(?=[A-ZÀ-Þ])")
_DEPENDENT = re.compile(r"(?:It|Its|They|Their|He|His|She|Her|This|That|These|Those|Such|Here)\b")


def pieces(contents: Iterable[RenderedContent]) -> list[RenderedContent]:
    """Readings as their sentences; everything else as it is."""
    parts: list[RenderedContent] = []
    for content in contents:
        lines = [_LINE.fullmatch(line) for line in content.text.split("\n")]
        read = [line for line in lines if line is not None]
        if len(read) == len(lines):
            parts += _paragraphs(content, read)
        else:
            parts.append(content)
    return parts


def _paragraphs(content: RenderedContent, lines: list[re.Match[str]]) -> Iterator[RenderedContent]:
    path, mark, _ = content.place.rpartition("!")
    open_lines: list[re.Match[str]] = []
    for line in [*lines, None]:
        if open_lines and (line is None or not line[3].strip() or _APART.match(line[3])):
            text = "\n".join(match[3] for match in open_lines)
            for start, end in _sentences(text):
                first = int(open_lines[0][1]) + text.count("\n", 0, start)
                last = first + text.count("\n", start, end)
                span = f"line {first}" if first == last else f"lines {first}-{last}"
                yield content.model_copy(update={"text": text[start:end], "place": f"{path}{mark}{span}"})
            open_lines = []
        if line is not None and line[3].strip():
            open_lines.append(line)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where sentences begin and end; one that speaks of the one before it stays with it."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if not _DEPENDENT.match(text, match.end()):
            yield start, match.start()
            start = match.end()
    yield start, len(text.rstrip())
