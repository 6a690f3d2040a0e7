"""A unified diff, read and put into the texts that it is for. Nothing here touches the disk.

What a hunk replaces is found by its lines: at the line it names, else at the one place where they stand. The counts of
its header are not looked at, because whoever writes a patch by hand counts wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentorchestra.core.errors import AmbiguousTextError, PatchError

NOTHING = "/dev/null"
_HUNK = re.compile(r"@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)?)?.*")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")
_BETWEEN = ("diff ", "index ", "new file", "deleted file", "old mode", "new mode", "```")  # what may stand there too
_NAMED = 5  # lines that are named in an error


@dataclass
class Hunk:
    """The lines of one place, each with its sign: a space for one that stays, `-` for one that goes, `+` for a new."""

    first: int | None  # the line that it names
    lines: list[tuple[str, str]] = field(default_factory=list)
    marked: bool = False  # whether it says of a last line that it has no end
    unended: bool = False  # whether it says so of the new last line

    @property
    def old(self) -> list[str]:
        """The lines as they stand in the file."""
        return [text for sign, text in self.lines if sign != "+"]


@dataclass
class FilePatch:
    """What a patch changes in one file; a path is "" where there is no file before, or none afterwards."""

    path: str
    to: str
    hunks: list[Hunk] = field(default_factory=list)


def parse_patch(text: str) -> list[FilePatch]:
    """Return what a patch changes, by file; PatchError if it is no unified diff, renames, or changes one twice."""
    lines = text.replace("\r\n", "\n").split("\n")
    found: list[FilePatch] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("rename ", "copy ", "GIT binary patch", "Binary files ")):
            raise PatchError(f"line {at + 1} of the patch is {line[:80]!r}; use move or copy, and patch lines of text")
        if _is_header(lines, at):
            one = FilePatch(_path(line), _path(lines[at + 1]))
            if one.path != one.to and one.path and one.to:
                raise PatchError(f"the patch renames {one.path} to {one.to}; use move, and patch the new name")
            if not (one.path or one.to) or any((other.to or other.path) == (one.to or one.path) for other in found):
                raise PatchError(f"the patch changes {one.to or 'no file'} twice; put its hunks below one header")
            found.append(one)
            at += 2
        elif found and (match := _HUNK.fullmatch(line)):
            hunk, at = _hunk(lines, at + 1, None if match[1] is None else int(match[1]))
            found[-1].hunks.append(hunk)
        elif found and found[-1].hunks and line.strip() and not line.startswith(_BETWEEN):
            raise PatchError(f"line {at + 1} of the patch is {line[:80]!r}; begin it with a space, + or -")
        else:
            at += 1
    if not found or not all(one.hunks for one in found):
        raise PatchError(
            "there is no change in the patch; give a unified diff: a line '--- a/PATH', a line '+++ b/PATH', then "
            "hunks, each a line '@@ -LINE,COUNT +LINE,COUNT @@' and lines that begin with a space, - or +"
        )
    return found


def _is_header(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _path(line: str) -> str:
    path = line[4:].partition("\t")[0].strip().strip('"')
    return "" if path == NOTHING else re.sub(r"^[ab]/", "", path)


def _hunk(lines: Sequence[str], at: int, first: int | None) -> tuple[Hunk, int]:
    hunk = Hunk(first)
    while at < len(lines) and lines[at][:1] in ("", " ", "-", "+", "\\") and not _is_header(lines, at):
        sign, text = lines[at][:1], lines[at][1:]
        if sign == "\\":  # No newline at end of file
            hunk.marked = True
            hunk.unended = hunk.unended or bool(hunk.lines and hunk.lines[-1][0] != "-")
        else:
            hunk.lines.append((sign, text))
        at += 1
    while hunk.lines and not hunk.lines[-1][0]:  # between this hunk and what follows
        hunk.lines.pop()
    # An empty line inside is one whose space was lost.
    hunk.lines = [(sign or " ", text) for sign, text in hunk.lines]
    return hunk, at


def patched(text: str, hunks: Sequence[Hunk], name: str) -> str:
    """Return a text with all hunks in it; new lines get the line end that the text has.

    Raises:
        PatchError: the lines of a hunk do not stand in the text.
        AmbiguousTextError: they stand there several times, and not at the line that the hunk names.
    """
    lines = [match[0] for match in _LINE.finditer(text)]
    bare = [one.rstrip("\r\n") for one in lines]
    end = next((one[len(plain) :] for one, plain in zip(lines, bare, strict=True) if one != plain), "\n")
    unended = bool(lines) and lines[-1] == bare[-1]
    if unended:
        lines[-1] += end
    done = moved = 0  # lines that earlier hunks are through with, and by how many they moved the others
    for number, hunk in enumerate(hunks, 1):
        named = None if hunk.first is None else hunk.first - 1 + moved
        at = _place(bare, hunk.old, done, named, f"hunk {number} of {name}")
        behind = at + len(hunk.old)
        if behind == len(lines):
            unended = hunk.unended or (unended and bool(hunk.old) and not hunk.marked)
        there = iter(lines[at:behind])
        kept = [(sign, f"{said}{end}" if sign == "+" else next(there)) for sign, said in hunk.lines]
        new = [line for sign, line in kept if sign != "-"]
        lines[at:behind] = new
        bare[at:behind] = [said for sign, said in hunk.lines if sign != "-"]
        done, moved = at + len(new), moved + len(new) - len(hunk.old)
    whole = "".join(lines)
    return whole.removesuffix(end) if unended else whole


def _place(lines: Sequence[str], old: Sequence[str], done: int, named: int | None, what: str) -> int:
    """Return the index of the first line that a hunk replaces, `named` if they stand there."""
    count = len(old)
    if not count:  # only new lines: they go behind the line that it names
        at = named + 1 if named is not None else None if lines else 0
        if at is None or not done <= at <= len(lines):
            raise PatchError(f"{what} has only new lines and names no line of the file; add a line around them")
        return at
    if named is not None and named >= done and [*lines[named : named + count]] == old:
        return named
    places = [at for at in range(done, len(lines) - count + 1) if [*lines[at : at + count]] == old]
    if len(places) == 1:
        return places[0]
    if places:
        where = ", ".join([*(str(at + 1) for at in places[:_NAMED]), *(["..."] if len(places) > _NAMED else [])])
        raise AmbiguousTextError(
            f"the lines of {what} stand {len(places)} times (lines {where}), and not where it says; give more of the "
            "lines around it, or its line"
        )
    raise PatchError(f"{what} does not apply: {_first_difference(lines, old, done, named)}")


def _first_difference(lines: Sequence[str], old: Sequence[str], done: int, named: int | None) -> str:
    fits = {
        at: next((n for n, one in enumerate(old) if at + n >= len(lines) or lines[at + n] != one), 0)
        for at in range(done, len(lines))
    }
    at = max(fits, key=lambda one: (fits[one], -abs(one - (named or 0))), default=0)
    if not fits.get(at):
        return f"its line {old[0][:200]!r} stands nowhere behind line {done}; read the file, write the patch anew"
    where, wanted = at + fits[at], old[fits[at]]
    there = f"is {lines[where][:200]!r}" if where < len(lines) else "is not there"
    return f"line {where + 1} {there}, not {wanted[:200]!r}; read the file, write the patch anew"
