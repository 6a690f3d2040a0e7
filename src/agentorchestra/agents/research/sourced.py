"""What of a report has sources: a claim behind which no finding is named is left out."""

from __future__ import annotations

import re

_MARK = re.compile(r"\[E\d+\]")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_SHOWN = 120


def sourced(text: str) -> tuple[str, list[str]]:
    """The paragraphs and items with marks, under their headings, and the beginnings of those without.

    A mark anywhere in a paragraph, a list item or a table stands for the whole of it. A paragraph that ends with a
    colon leads to what follows, and goes where nothing of that is left.

    Args:
        text: Markdown with marks `[E1]`.
    """
    kept: list[str] = []
    gone: list[str] = []
    leading: list[str] = []  # headings and lines that lead to something
    for part in _parts(text):
        if part.startswith("#") or (part.rstrip().endswith(":") and not _MARK.search(part)):
            leading = [*(leading if not part.startswith("#") else []), part]
        elif _MARK.search(part):
            kept += [*leading, part]
            leading = []
        else:
            words = " ".join(part.split())
            gone.append(words if len(words) <= _SHOWN else f"{words[: _SHOWN - 1]}…")
    return _joined(kept), gone


def _parts(text: str) -> list[str]:
    """Paragraphs, headings, items of lists, tables."""
    found: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        open_ = ""
        for line in block.splitlines():
            if line.startswith("#"):
                found += [open_, line]
                open_ = ""
            elif _ITEM.match(line):
                found.append(open_)
                open_ = line
            else:
                open_ = f"{open_}\n{line}" if open_ else line
        found.append(open_)
    return [one for one in found if one.strip()]


def _joined(parts: list[str]) -> str:
    """With empty lines between them, none between the items of a list."""
    text = ""
    for before, part in zip(["", *parts], parts, strict=False):
        between = "\n" if _ITEM.match(before) and _ITEM.match(part) else "\n\n"
        text += f"{between}{part}" if text else part
    return text


__all__ = ["sourced"]
