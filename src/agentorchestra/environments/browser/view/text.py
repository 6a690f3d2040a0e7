"""Words of a page, made fit to stand in a line of ours: nothing in them can be taken for a line or a reference."""

from __future__ import annotations

import json
import re
import unicodedata

_REFERENCE = re.compile(r"[\[［【⟦][\[［【⟦\s]*((?:f\d+)?[ex]\d+)[\s\]］】⟧]*[\]］】⟧]", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_MARKS = re.compile(r"([̀-ͯ҃-҉᪰-᫿᷀-᷿⃐-⃿︠-︯]{3})[̀-ͯ҃-҉᪰-᫿᷀-᷿⃐-⃿︠-︯]+")
_USER = re.compile(r"(?<=://)[^/?#\s]*@")
_BLANK = frozenset("ㅤᅟᅠﾠ⠀")  # letters that show nothing
_FINE = re.compile(r"[ -Z\\^-z|~]*")  # text in which nothing has to be looked at
_CLEAN = re.compile(r"[!-Z\\^-z|~]+(?: [!-Z\\^-z|~]+)*")  # fine words, a blank between them


def plain(text: str, most: int) -> str:
    """Return a page's text on one line: no control or invisible characters, no references of ours, cut and counted."""
    if len(text) <= most and _CLEAN.fullmatch(text):
        return text
    whole = len(text)
    # What is cut away need not be cleaned: a name may have a million characters.
    line = text[: most * 4 + 200]
    if not _FINE.fullmatch(line):
        line = "".join(map(_visible, line))
        line = _MARKS.sub(r"\1", line)
        line = _REFERENCE.sub(r"\1", line)
    line = _SPACE.sub(" ", line).strip()
    if len(line) <= most and whole <= most * 4 + 200:
        return line
    return f"{line[:most].rstrip()}... ({max(whole - most, 1):,} more characters)"


def quote(text: str, most: int) -> str:
    """Return the same in quotation marks, which the text cannot end."""
    return '"' + plain(text, most).replace("\\", "\\\\").replace('"', '\\"') + '"'


def exact(text: str, most: int) -> str:
    """Return a field's value in quotation marks, with all its blanks; what would not be seen as its escape."""
    literal = "".join(
        char if char.isprintable() else ascii(char)[1:-1] for char in json.dumps(text[:most], ensure_ascii=False)
    )
    return _REFERENCE.sub(r"\1", literal) + (f"... ({len(text) - most:,} more characters)" if len(text) > most else "")


def address(url: str, most: int = 120) -> str:
    """Return an address, shortened in the middle, with nothing in it that is not of an address."""
    if url.startswith("data:"):
        return url[:30].split(",")[0] + ",..."
    clean = without_password(plain(url, 4000)).replace(" ", "%20")
    if len(clean) <= most:
        return clean
    return f"{clean[: most * 2 // 3]}...{clean[-most // 4 :]}"


def without_password(url: str) -> str:
    """Return an address without the user and password in it."""
    return _USER.sub("", url)


def _visible(char: str) -> str:
    if char.isascii():
        return char if char.isprintable() else " "
    if char in _BLANK:
        return " "
    category = unicodedata.category(char)
    if category in ("Cc", "Zs", "Zl", "Zp"):
        return " "
    if category in ("Cf", "Cs", "Co", "Cn") or "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
        return ""
    return char
