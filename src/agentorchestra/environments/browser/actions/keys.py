"""Keys by name. What is typed is text, and goes through `input_text` or `type_text`, where it is judged."""

from __future__ import annotations

from agentorchestra.core.errors import ToolError

_MODIFIERS = {
    "control": "Control",
    "ctrl": "Control",
    "strg": "Control",
    "shift": "Shift",
    "alt": "Alt",
    "option": "Alt",
    "meta": "Meta",
    "cmd": "Meta",
    "command": "Meta",
    "win": "Meta",
}
_NAMED = (
    *("Enter", "Escape", "Tab", "Backspace", "Delete", "Insert", "Space", "Home", "End", "PageUp", "PageDown"),
    *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "ContextMenu"),
    *(f"F{number}" for number in range(1, 13)),
    *("Shift", "Control", "Alt", "Meta"),
)
_OTHERS = {"esc": "Escape", "return": "Enter", "del": "Delete", "up": "ArrowUp", "down": "ArrowDown"} | {
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "pgup": "PageUp",
    "pgdn": "PageDown",
    " ": "Space",
}
_CLIPBOARD = frozenset({"c", "v", "x"})


def checked_keys(text: str) -> str:
    """Return a key or a chord as the browser names it: `Control+A`.

    Raises:
        ToolError: for text, for unknown keys, and for the clipboard, which all pages of the browser share.
    """
    *held, last = text.replace(" ", "").split("+") if text.strip() else [text]
    modifiers = [_MODIFIERS.get(one.lower(), "") for one in held]
    if "" in modifiers:
        bad = held[modifiers.index("")]
        raise ToolError(f"{bad!r} is no key to hold; hold Control, Shift, Alt or Meta, as in Control+A")
    named = {one.lower(): one for one in _NAMED} | _OTHERS
    key = named.get(last.lower(), "")
    strong = [one for one in modifiers if one != "Shift"]
    if not key and len(last) == 1 and last.isprintable() and strong:
        if last.lower() in _CLIPBOARD:
            raise ToolError("there is no clipboard here; type the text with input_text")
        key = last.upper() if last.isalpha() and "Shift" in modifiers else last
    if key == "Insert" and modifiers:
        raise ToolError("there is no clipboard here; type the text with input_text")
    if not key:
        raise ToolError(
            f"{text!r} is no key; give one of {', '.join(_NAMED[:16])}, F1 to F12, or a letter with Control or Alt "
            "(text is typed with input_text or type_text)"
        )
    return "+".join([*modifiers, key])


__all__ = ["checked_keys"]
