"""Folders of files: what lies below a folder that is given with a task, and how thousands of files are spoken of."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import FileInputError
from agentorchestra.core.spec import FileRef

MAX_FILES = 20_000  # files of one task
MAX_BYTES = 5_000_000_000  # bytes of all files of one task: they are kept with the run
MAX_ENTRIES = 500_000  # entries of a folder that are looked at, those that are left out among them
MAX_NAME = 1_000  # bytes of a file's name with its folders
LIST_SIZE = 40  # files that a prompt or a description names one by one; the others are counted
MOST_EXAMPLES = 3  # examples that a note gives of one kind of what was left out

NEVER = frozenset({"node_modules", "__pycache__"})  # names of folders that programs fill, and fill anew
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class FoundFile:
    """A file below a folder: its name inside the run, and where it is."""

    name: str
    path: Path


@dataclass
class LeftOut:
    """Files of a folder that were not taken, by the reason."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, example: str) -> None:
        self.counts[reason] += 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < MOST_EXAMPLES:
            examples.append(example)

    def sentence(self, folder: str) -> str:
        """Return one sentence for people and models, "" when nothing was left out."""
        if not self.counts:
            return ""
        parts = []
        for reason, count in sorted(self.counts.items()):
            examples = ", ".join(self.examples[reason]) + (", ..." if count > len(self.examples[reason]) else "")
            parts.append(f"{reason}: {count:,} ({examples})")
        return f"Left out of {folder}/: {'; '.join(parts)}."


def printable(name: str) -> str:
    """Return a name without the characters that end a line or cannot be written: models and people are shown it."""
    return _UNPRINTABLE.sub("_", name)


def list_folder(folder: Path, name: str, left_out: LeftOut, *, apart: Path | None = None) -> list[FoundFile]:
    """Return the files below a folder in the order of their names, as `name/...`; FileInputError for too many."""
    root = folder.resolve()
    own = _identity(apart)
    files: list[FoundFile] = []
    total = seen = 0
    for entry, below in _entries(root, name, left_out, own):
        seen += 1
        if seen > MAX_ENTRIES:
            raise FileInputError(
                f"{folder} has more than {MAX_ENTRIES:,} entries; give the folders below it that you need."
            )
        size = _size(entry, root)
        if isinstance(size, str):
            left_out.add(size, below)
            continue
        total += size
        if len(files) == MAX_FILES:
            raise FileInputError(_limit_message(folder, f"{MAX_FILES:,} files"))
        if total > MAX_BYTES:
            raise FileInputError(_limit_message(folder, f"{MAX_BYTES:,} bytes"))
        files.append(FoundFile(below, Path(entry.path)))
    files.sort(key=lambda file: file.name.split("/"))
    return files


def _limit_message(folder: Path, limit: str) -> str:
    return f"{folder} has more than {limit}, which is the most for one task; give the folders below it that you need."


def _identity(folder: Path | None) -> tuple[int, int] | None:
    try:
        status = folder.stat() if folder is not None else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status is not None else None


def _entries(
    root: Path, name: str, left_out: LeftOut, apart: tuple[int, int] | None
) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Give the entries below a folder that are no folders, with their names; without those that are never taken."""
    waiting = [(str(root), name)]
    while waiting:
        place, above = waiting.pop()
        try:
            entries = os.scandir(place)
        except OSError as error:
            if place == str(root):
                raise FileInputError(f"{root} cannot be read: {error.strerror}; make it readable.") from None
            left_out.add("folders that cannot be read", above)
            continue
        with entries:
            for entry in entries:
                # No name can end the list that it is shown in, nor begin another part of a prompt.
                below = f"{above}/{printable(entry.name).replace('<', '_').replace('>', '_')}"
                is_folder = entry.is_dir(follow_symlinks=False)
                if len(below.encode()) > MAX_NAME:
                    left_out.add("names that are too long", f"{below[:80]}...")
                elif entry.name.startswith("."):
                    left_out.add("hidden", below)
                elif is_folder and (entry.name in NEVER or (apart and _identity(Path(entry.path)) == apart)):
                    left_out.add("folders of programs", below)
                elif is_folder:
                    waiting.append((entry.path, below))
                else:
                    yield entry, below


def _size(entry: os.DirEntry[str], root: Path) -> int | str:
    """Return the size of a file that is taken, the reason for one that is left out."""
    try:
        if entry.is_symlink():
            target = Path(entry.path).resolve(strict=True)
            if not target.is_relative_to(root):
                return "links that leave the folder"
            if any(part.startswith(".") or part in NEVER for part in target.relative_to(root).parts):
                return "links to what is left out"
        status = entry.stat()
    except (OSError, RuntimeError):  # a link to nowhere, or in a circle
        return "broken links"
    if stat.S_ISDIR(status.st_mode):
        return "links to folders"
    return status.st_size if stat.S_ISREG(status.st_mode) else "pipes, sockets and devices"


def matching(files: Sequence[FileRef], pattern: str | None) -> list[FileRef]:
    """Return the files a pattern names: `docs/*.md` (`*` is any characters, also `/`), a folder, a name; else all."""
    if pattern is None or not pattern.strip():
        return list(files)
    glob = pattern.strip().replace("\\", "/").removeprefix("./").lower()[:MAX_NAME]
    if not any(char in glob for char in "*?["):
        folder = glob.rstrip("/")
        return [file for file in files if file.name.lower() == folder or file.name.lower().startswith(f"{folder}/")]
    fits = re.compile(fnmatch.translate(glob.replace("**/", "*").replace("**", "*"))).match
    return [file for file in files if fits(file.name.lower())]


def by_folder(files: Sequence[FileRef]) -> list[str]:
    """Return a line per folder with its types; of more than 20 deep ones are put together, the rest is counted."""
    folders = Counter(file.name.rpartition("/")[0] for file in files)
    deepest = max(name.count("/") for name in folders) if folders else 0
    counts = {depth: len({_cut(name, depth) for name in folders}) for depth in range(deepest + 1)}
    depth = max((depth for depth, count in counts.items() if count <= 20), default=0)
    if counts.get(depth, 0) <= 3 and depth < deepest:
        depth += 1  # one line for everything would tell nothing
    types: dict[str, Counter[str]] = {}
    for file in files:
        types.setdefault(_cut(file.name.rpartition("/")[0], depth), Counter())[file.media_type] += 1
    largest = sorted(types.items(), key=lambda item: (-item[1].total(), item[0]))[:20]
    lines = [_folder_line(name, kinds) for name, kinds in sorted(largest)]
    if len(types) > 20:
        lines.append(f"and {len(types) - 20:,} more folders")
    return lines


def _folder_line(name: str, kinds: Counter[str]) -> str:
    types = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common(5))
    more = f", {len(kinds) - 5} other types" if len(kinds) > 5 else ""
    total = kinds.total()
    return f"{name or 'in no folder'}: {total:,} {'file' if total == 1 else 'files'}: {types}{more}"


def listing(files: Sequence[FileRef]) -> dict[str, Any]:
    """Return what a prompt is told of the files: the first ones (those without a folder before), the others counted."""
    order = sorted(files, key=lambda file: "/" in file.name) if len(files) > LIST_SIZE else files
    more = max(0, len(files) - LIST_SIZE)
    return {
        "files": [{"name": file.name, "media_type": file.media_type, "size": file.size} for file in order[:LIST_SIZE]],
        "more": f"{more:,}" if more else "",
        "total": f"{len(files):,}",
        "folders": by_folder(files) if more else [],
    }


def _cut(folder: str, depth: int) -> str:
    return "/".join(folder.split("/")[: depth + 1])
