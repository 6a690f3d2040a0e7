"""What changed between two views of a page, where that is shorter than the page."""

from __future__ import annotations

import difflib

from agentorchestra.environments.browser.view.view import View

_MOST_LINES = 1500
_CONTEXT = 1


def difference(previous: View | None, now: View) -> str | None:
    """Return what is different now, in lines that begin with `-` (gone) and `+` (new).

    None if only the page itself says it: nothing was seen before, after a navigation, of another part of the page or in
    another form, or where the changes are as long as the page.
    """
    if previous is None or previous.document != now.document or previous.number >= now.number:
        return None
    if (previous.whole, previous.drawn) != (now.whole, now.drawn):
        return None
    if max(len(previous.lines), len(now.lines)) > _MOST_LINES:
        return None
    changes = [
        line
        for line in difflib.unified_diff(previous.lines, now.lines, lineterm="", n=_CONTEXT)
        if not line.startswith(("---", "+++", "@@"))
    ]
    if not any(line[0] in "+-" for line in changes):
        moved = "" if previous.scroll == now.scroll else f"; {now.place}"
        return f"nothing changed since view {previous.number} of the page{moved}"
    told = "\n".join((f"changed since view {previous.number} of the page (- gone, + new; {now.place}):", *changes))
    return told if len(told) < sum(map(len, now.lines)) + len(now.lines) else None


__all__ = ["difference"]
