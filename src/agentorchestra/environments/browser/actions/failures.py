"""What the browser says of an action that failed, in a sentence that says what to do next."""

from __future__ import annotations

import re

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser.view.text import plain

_CALL = re.compile(r"^(?:Locator|Page|Mouse|Keyboard|ElementHandle|Frame)\.\w+: ")
_COVERED = re.compile(r"- (<.+>) intercepts pointer events")
_REASONS = (
    ("element is not enabled", "is disabled; do first what it waits for, or use another element"),
    ("element is not visible", "cannot be seen; open what hides it first (a menu, a tab), or look at the state again"),
    ("element is not editable", "is read only; use another field"),
    ("element is not stable", "keeps moving; wait a second and try again"),
    ("Element is outside of the viewport", "cannot be scrolled into view; look at the state again"),
    ("Element is not an <input>", "is no field to type into; take the reference of a field"),
    ("Cannot type text into input[type=number]", "takes a number only"),
    ("Malformed value", "does not take this value: dates are 2024-05-31, times 14:30, months 2024-05, colours #ff8800"),
    ("Node is not an HTMLInputElement", "takes no files; take the reference of a file field or of its button"),
    ("Non-multiple file input", "takes one file only"),
    ("not attached", "is gone from the page; look at the state again"),
    ("strict mode violation", "means several elements now; look at the state again"),
    ("has been closed", "cannot be used: its tab was closed; look at the state again"),
)
DONE = ("performing click action", "performing hover action", "click action done")
"""What stands in the log of a call once it has done something: such a call is not made again."""


def reason(error: Exception, ref: str) -> ToolError | None:
    """Return the sentence for a failure that is known; None for any other."""
    said = str(error)
    covered = _COVERED.findall(said)
    if covered:
        what = plain(covered[-1], 120)
        return ToolError(f"{ref} is covered by {what}; close that first, scroll, or click the place of what is on top")
    for words, sentence in _REASONS:
        if words in said:
            return ToolError(f"{ref} {sentence}")
    return None


def mistake(error: Exception, ref: str) -> ToolError:
    """Return the sentence for any failure."""
    known = reason(error, ref)
    if known is not None:
        return known
    first = plain(_CALL.sub("", str(error).strip().split("\n")[0]), 200)
    return ToolError(f"{ref} could not be used ({first}); look at the state again and try another way")


__all__ = ["DONE", "mistake", "reason"]
