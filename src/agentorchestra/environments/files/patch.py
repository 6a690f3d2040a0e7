"""A unified diff, read and put into the texts that it is for. Nothing here touches the disk.

What a hunk replaces is found by its lines: at the line it names, else at the one place where they stand. The counts of
its header are not looked at, because whoever writes a patch by hand counts wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentorchestra.core.errors import AmbiguousTextError, PatchError

NO_FILE = "/dev/null"
_HUNK = re.compile(r"@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)?)?.*")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")
_BETWEEN = ("diff ", "index ", "new file", "deleted file", "old mode", "new mode", "```")  # what may stand there too
_PLACES = 5  # lines that are named in an error


@dataclass
class Hunk:
    """The lines of one place, each with its sign: a space for one that stays, `-` for one that goes, `+` for a new."""

    first: int | None  # the line that it names
    lines: list[tuple[str, str]] = field(default_factory=list)
    has_mark: bool = False  # whether it says of a last line that it has no end
    no_end: bool = False  # whether it says so of the new last line

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
    files: list[FilePatch] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("rename ", "copy ", "GIT binary patch", "Binary files ")):
            raise PatchError(f"line {at + 1} of the patch is {line[:80]!r}; use move or copy, and patch lines of text")
        if _is_header(lines, at):
            file = FilePatch(_path(line), _path(lines[at + 1]))
            if file.path != file.to and file.path and file.to:
                raise PatchError(f"the patch renames {file.path} to {file.to}; use move, and patch the new name")
            if not (file.path or file.to) or any((old.to or old.path) == (file.to or file.path) for old in files):
                raise PatchError(f"the patch changes {file.to or 'no file'} twice; put its hunks below one header")
            files.append(file)
            at += 2
        elif files and (match := _HUNK.fullmatch(line)):
            hunk, at = _hunk(lines, at + 1, None if match[1] is None else int(match[1]))
            files[-1].hunks.append(hunk)
        elif files and files[-1].hunks and line.strip() and not line.startswith(_BETWEEN):
            raise PatchError(f"line {at + 1} of the patch is {line[:80]!r}; begin it with a space, + or -")
        else:
            at += 1
    if not files or not all(file.hunks for file in files):
        raise PatchError(
            "there is no change in the patch; give a unified diff: a line '--- a/PATH', a line '+++ b/PATH', then "
            "hunks, each a line '@@ -LINE,COUNT +LINE,COUNT @@' and lines that begin with a space, - or +"
        )
    return files


def _is_header(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _path(line: str) -> str:
    path = line[4:].partition("\t")[0].strip().strip('"')
    return "" if path == NO_FILE else re.sub(r"^[ab]/", "", path)


def _hunk(lines: Sequence[str], at: int, first: int | None) -> tuple[Hunk, int]:
    hunk = Hunk(first)
    while at < len(lines) and lines[at][:1] in ("", " ", "-", "+", "\\") and not _is_header(lines, at):
        sign, text = lines[at][:1], lines[at][1:]
        if sign == "\\":  # No newline at end of file
            hunk.has_mark = True
            hunk.no_end = hunk.no_end or bool(hunk.lines and hunk.lines[-1][0] != "-")
        else:
            hunk.lines.append((sign, text))
        at += 1
    while hunk.lines and not hunk.lines[-1][0]:  # between this hunk and what follows
        hunk.lines.pop()
    # An empty line inside is one whose space was lost.
    hunk.lines = [(sign or " ", text) for sign, text in hunk.lines]
    return hunk, at


def apply_hunks(text: str, hunks: Sequence[Hunk], name: str) -> str:
    """Return a text with all hunks in it; new lines get the line end that the text has.

    Raises:
        PatchError: the lines of a hunk do not stand in the text.
        AmbiguousTextError: they stand there several times, and not at the line that the hunk names.
    """
    lines = [match[0] for match in _LINE.finditer(text)]
    bare = [line.rstrip("\r\n") for line in lines]
    end = next((line[len(plain) :] for line, plain in zip(lines, bare, strict=True) if line != plain), "\n")
    no_end = bool(lines) and lines[-1] == bare[-1]
    if no_end:
        lines[-1] += end
    done = shift = 0  # lines that earlier hunks are through with, and by how many they moved the others
    for number, hunk in enumerate(hunks, 1):
        target = None if hunk.first is None else hunk.first - 1 + shift
        at = _place(bare, hunk.old, done, target, f"hunk {number} of {name}")
        behind = at + len(hunk.old)
        if behind == len(lines):
            no_end = hunk.no_end or (no_end and bool(hunk.old) and not hunk.has_mark)
        current = iter(lines[at:behind])
        pairs = [(sign, f"{line}{end}" if sign == "+" else next(current)) for sign, line in hunk.lines]
        new = [line for sign, line in pairs if sign != "-"]
        lines[at:behind] = new
        bare[at:behind] = [line for sign, line in hunk.lines if sign != "-"]
        done, shift = at + len(new), shift + len(new) - len(hunk.old)
    whole = "".join(lines)
    return whole.removesuffix(end) if no_end else whole


def _place(lines: Sequence[str], old: Sequence[str], done: int, target: int | None, label: str) -> int:
    """Return the index of the first line that a hunk replaces, `named` if they stand there."""
    count = len(old)
    if not count:  # only new lines: they go behind the line that it names
        at = target + 1 if target is not None else None if lines else 0
        if at is None or not done <= at <= len(lines):
            raise PatchError(f"{label} has only new lines and names no line of the file; add a line around them")
        return at
    if target is not None and target >= done and [*lines[target : target + count]] == old:
        return target
    places = [at for at in range(done, len(lines) - count + 1) if [*lines[at : at + count]] == old]
    if len(places) == 1:
        return places[0]
    if places:
        text = ", ".join([*(str(at + 1) for at in places[:_PLACES]), *(["..."] if len(places) > _PLACES else [])])
        raise AmbiguousTextError(
            f"the lines of {label} stand {len(places)} times (lines {text}), and not where it says; give more of the "
            "lines around it, or its line"
        )
    raise PatchError(f"{label} does not apply: {_first_difference(lines, old, done, target)}")


def _first_difference(lines: Sequence[str], old: Sequence[str], done: int, target: int | None) -> str:
    fits = {
        at: next((n for n, line in enumerate(old) if at + n >= len(lines) or lines[at + n] != line), 0)
        for at in range(done, len(lines))
    }
    at = max(fits, key=lambda start: (fits[start], -abs(start - (target or 0))), default=0)
    if not fits.get(at):
        return f"its line {old[0][:200]!r} stands nowhere behind line {done}; read the file, write the patch anew"
    index, expected = at + fits[at], old[fits[at]]
    actual = f"is {lines[index][:200]!r}" if index < len(lines) else "is not there"
    return f"line {index + 1} {actual}, not {expected[:200]!r}; read the file, write the patch anew"
