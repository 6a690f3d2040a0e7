"""The parts of a report that have sources: a claim behind which no finding is named is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentorchestra.agents.reporting.references import MARK

_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_TITLE = re.compile(r"\s*(?:[-*_]{3,}|\*\*[^*\n]+\*\*)\s*")
_BRIEF_CHARS = 120


@dataclass(frozen=True)
class ReportPart:
    """A paragraph, a heading, an item of a list or a table."""

    text: str
    holds: bool  # it names evidence that there is
    leads: bool  # a heading, or a line with a colon at its end: it goes where nothing of what it leads to is left

    @property
    def lacks_source(self) -> bool:
        return not self.holds and not self.leads

    @property
    def brief(self) -> str:
        words = " ".join(self.text.split())
        return words if len(words) <= _BRIEF_CHARS else f"{words[: _BRIEF_CHARS - 1]}…"


def parts_of(text: str, most: int) -> list[ReportPart]:
    """Return the parts of a text. A mark anywhere in a paragraph, an item or a table stands for all of it."""
    parts = []
    for block in _split(text):
        holds = any(0 < int(number) <= most for number in MARK.findall(block))
        leads = block.startswith("#") or block.rstrip("*_ \n").endswith(":") or _TITLE.fullmatch(block) is not None
        parts.append(ReportPart(block, holds, leads and not holds))
    return parts


def join_parts(parts: Sequence[ReportPart]) -> str:
    """Join the parts with evidence, below what leads to them; no empty lines between items of a list."""
    texts: list[str] = []
    leading: list[str] = []
    for part in parts:
        if part.leads:
            level = _level(part.text)
            leading = [*(heading for heading in leading if not level or 0 < _level(heading) < level), part.text]
        elif part.holds:
            texts += [*leading, part.text]
            leading = []
    text = ""
    for before, current in zip(["", *texts], texts, strict=False):
        between = "\n" if _ITEM.match(before) and _ITEM.match(current) else "\n\n"
        text += f"{between}{current}" if text else current
    return text


def _level(text: str) -> int:
    """Return the level of a heading, 1 for the highest; 0 for what is none."""
    return len(text) - len(text.lstrip("#"))


def _split(text: str) -> list[str]:
    """Return paragraphs, headings, items of lists, tables."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        open_ = ""
        for line in block.splitlines():
            if line.startswith("#"):
                blocks += [open_, line]
                open_ = ""
            elif _ITEM.match(line):
                blocks.append(open_)
                open_ = line
            else:
                open_ = f"{open_}\n{line}" if open_ else line
        blocks.append(open_)
    return [block for block in blocks if block.strip()]
