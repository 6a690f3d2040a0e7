"""What programs printed, as text."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])?")
_ODD = {char: f"^{chr(char ^ 64)}" for char in (*range(8), 11, *range(14, 27), *range(28, 32), 127)}  # as cat -v


def plain(text: str, size: int) -> str:
    """Return an output of some bytes as text: without what directs a terminal, and binary data only told of."""
    odd = sum(map(text.count, ("\ufffd", *map(chr, _ODD))))
    if odd > max(3, len(text) // 10):  # a bell or two are no binary data
        return f"[{size:,} bytes that are not text in UTF-8; look at them with file, xxd or iconv]"
    lines = _ESCAPE.sub("", text).replace("\r\n", "\n").translate(_ODD).split("\n")
    layers = [re.sub(r".?\x08", "", line).rstrip("\r").split("\r") for line in lines]
    over = sum(len(line) - 1 for line in layers)
    note = f"\n[{over:,} lines that others were drawn over are left out]" * bool(over)
    return "\n".join(line[-1] for line in layers).rstrip("\n") + note
