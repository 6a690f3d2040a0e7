"""What the environment `files` does on the disk. Everything blocks but `shown` and `unpack`; call it in a thread."""

from __future__ import annotations

import asyncio
import errno
import fnmatch
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.errors import AmbiguousTextError, EditError, NotTextError, ToolError
from agentorchestra.environments.beneath import (
    OutsideError,
    PathStatus,
    folder_at,
    open_file,
    parent_of,
    parts_of,
    status_of,
    walk,
)
from agentorchestra.environments.folder import FILES
from agentorchestra.environments.manifest import FolderLimits, place_file

if TYPE_CHECKING:
    from agentorchestra.tools.files.documents import Document

_SEARCH_BYTES = 5_000_000  # bytes of a file that are searched for a text; larger ones are named
_LINE = 300  # characters of a line that a search shows
_CHUNK = 1 << 20
_LINE_END = "(?:\r\n|\r|\n)"

_TEMPORARY = Callable[[], Path]
_T = TypeVar("_T")


@dataclass(frozen=True)
class DiskPlace:
    root: Path  # the folder that it may not leave
    parts: tuple[str, ...]  # its components below that
    path: str  # as the agent writes it
    from_task: bool = False  # whether it is one of the task's files


class FileCopy(NamedTuple):
    """A copy that nobody else can change."""

    path: Path
    sha256: str


def failure(error: Exception) -> ToolError:
    if isinstance(error, ToolError):
        return error
    if not isinstance(error, OSError):
        return ToolError(str(error))
    name = error.filename if isinstance(error.filename, str) else ""
    sentences = {
        errno.ENOENT: "does not exist; list shows what there is",
        errno.ENOTDIR: "is no folder",
        errno.EISDIR: "is a folder; name a file in it",
        errno.EEXIST: "is there already, and nothing that is there is replaced; choose another name",
        errno.ENOTEMPTY: "is there already and holds something; choose another name",
        errno.EACCES: "may not be read or changed: its rights do not allow it",
        errno.ENOSPC: "was not written: the disk is full",
        errno.ENAMETOOLONG: "is too long a name",
    }
    sentence = sentences.get(error.errno or 0, f"could not be used: {error.strerror or error}")
    return ToolError(f"{name or 'it'} {sentence}")


@contextmanager
def naming(place: DiskPlace) -> Iterator[None]:
    """Let errors of the disk name the path as the agent wrote it."""
    try:
        yield
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, place.path) from None


async def in_thread(work: Callable[[], _T]) -> _T:
    """Work on the disk in a thread; raise an error as one sentence."""
    try:
        return await asyncio.to_thread(work)
    except (OSError, ValueError) as exc:
        raise failure(exc) from None


def place_of(path: str, folder: Path, files: Path | None) -> DiskPlace:
    """Return the place of a path; the task's files are seen below `files/`. Raise ToolError for one outside."""
    try:
        parts = parts_of(path)
    except ValueError as exc:
        raise ToolError(str(exc)) from None
    if parts[:1] == (FILES,) and files is not None:
        return DiskPlace(files, parts[1:], "/".join(parts), from_task=True)
    return DiskPlace(folder, parts, "/".join(parts))


def _open(place: DiskPlace) -> int:
    if not place.parts:
        raise IsADirectoryError(errno.EISDIR, "this is a folder", place.path or "the folder")
    with naming(place), parent_of(place.root, place.parts) as (at, name):
        return open_file(at, name)


def content_of(place: DiskPlace, most: int = 256 << 20) -> bytes | None:
    """Return a file's bytes, None if there is nothing; raise ToolError if it has more than `most`."""
    try:
        descriptor = _open(place)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ToolError(f"{place.path} has more than {most >> 20:,} MiB; change it in the terminal")
    return data


def copy_of(place: DiskPlace, temporary: _TEMPORARY) -> FileCopy:
    """Return a copy of a file with the same ending, which readers can take their time with."""
    descriptor = _open(place)
    with os.fdopen(descriptor, "rb") as file:
        temp = temporary()
        folder = temp.with_name(f"{temp.name}.d")
        temp.unlink()
        folder.mkdir()
        path = folder / place.parts[-1]
        digest = hashlib.sha256()
        with path.open("wb") as out:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                out.write(chunk)
    return FileCopy(path, digest.hexdigest())


def forget(path: Path) -> None:
    shutil.rmtree(path.parent, ignore_errors=True)


async def content_blocks(
    path: Path, name: str, part: str, ctx: Any, view_range: Sequence[int] = (), encoding: str = ""
) -> list[Block]:
    """Return a file's content for an agent: text exactly, line by line; a picture as a picture."""
    from agentorchestra.tools.files.common import as_source, how_to_look, names_source
    from agentorchestra.tools.files.documents import is_media
    from agentorchestra.tools.files.formats.sniff import sniff
    from agentorchestra.tools.files.read import Asked, read_blocks, room_for, span_of
    from agentorchestra.tools.files.readers import describe_media, read_document, source_sync

    if not (size := path.stat().st_size):
        return [TextBlock(text=f"{name} is empty", trust=Trust.UNTRUSTED)]
    with path.open("rb") as file:
        media_type = sniff(file.read(65_536), path.name)
    if is_media(media_type):
        if part:
            raise ToolError(f"{name} is {media_type} and has no part {part!r}; leave part out to have it shown")
        source = Source(kind="file", ref=name)
        artifact = await ctx.artifact(name, await asyncio.to_thread(path.read_bytes), media_type)
        medium = MediaBlock(sha256=artifact.sha256, media_type=media_type, name=name, size=size, source=source)
        return [medium, TextBlock(text=await describe_media(path), source=source, trust=Trust.UNTRUSTED)]
    document: Document
    as_text = media_type in ("text/plain", "text/markdown", "text/html", "application/xml", "application/json")
    if as_text and not path.name.lower().endswith((".ipynb", ".pdf")):
        document = await asyncio.to_thread(source_sync, path, encoding=encoding)
    elif names_source(part, media_type):
        document = as_source(await asyncio.to_thread(source_sync, path, encoding=encoding))
    else:
        document = await read_document(path, encoding=encoding)
    request = Asked(part, span_of(view_range), way=how_to_look(ctx), ranged=True, limit=room_for(ctx))
    return await asyncio.to_thread(read_blocks, document, name, request)


def decoded(data: bytes, name: str) -> tuple[str, Callable[[str], bytes]]:
    """Return a file's text with its line ends, and a function that encodes it alike; raise NotTextError for no text."""
    from agentorchestra.tools.files.formats.base import Refused
    from agentorchestra.tools.files.formats.text import decoded as read

    try:
        content = read(data)
    except Refused:
        raise NotTextError(f"{name} holds binary data, not text; only text can be changed here") from None
    if not content.exact or content.mark + content.text.encode(content.encoding) != data:
        kind = "NUL characters" if content.nuls else f"bytes that are not {content.name}"
        raise NotTextError(f"{name} holds {kind}, which edit cannot keep; change it by a program")

    def encoded(text: str) -> bytes:
        try:
            return content.mark + text.encode(content.encoding)
        except UnicodeEncodeError as error:
            char = text[error.start]
            raise NotTextError(
                f"{char!r} cannot be written in {content.name}, in which {name} stands; write the file anew in UTF-8"
            ) from None

    return content.text, encoded


def replace_text(text: str, old: str, new: str, *, every: bool, name: str) -> tuple[str, int]:
    """Return the text with a piece replaced (its newlines fit any line end), and how often; EditError for none."""
    if not old:
        raise EditError("the text to replace is empty; give the text as it stands in the file")
    if old == new:
        raise EditError("the old and the new text are the same; nothing was changed")
    loose = "\r" in text and "\r" not in old  # lines are shown without the ends that the file has
    pattern = re.compile(_LINE_END.join(map(re.escape, old.split("\n"))) if loose else re.escape(old))
    if not (starts := [match.start() for match in pattern.finditer(text)]):
        hint = " without the numbers of the lines" if re.match(r"\d+\t", old) else ""
        raise EditError(
            f"the text does not stand in {name}; read it and give the text exactly as it stands there{hint}"
        )
    if len(starts) > 1 and not every:
        lines = [str(len(re.findall(_LINE_END, text[:at])) + 1) for at in starts[:5]]
        numbers = ", ".join([*lines, "..."] if len(starts) > 5 else lines)
        raise AmbiguousTextError(
            f"the text stands {len(starts)} times in {name} (lines {numbers}); give more of what is around the one you "
            "mean, or every=true for all"
        )

    def replacement(match: re.Match[str]) -> str:
        if not loose or "\r" in new:
            return new
        end = re.search(_LINE_END, match[0]) or re.search(_LINE_END, text)
        return new.replace("\n", end[0] if end else "\n")

    return pattern.sub(replacement, text), len(starts)


def insert_lines(text: str, line: int, new: str, name: str) -> str:
    """Return the text with further lines behind one of its lines, 0 for its beginning; EditError for no such line."""
    starts = [0, *(match.end() for match in re.finditer(_LINE_END, text))]
    lines = len(starts) - (starts[-1] == len(text))
    if not 0 <= line <= lines:
        raise EditError(f"{name} has {lines:,} lines; give a line from 0 (before the first) to {lines:,}, not {line:,}")
    at = starts[line] if line < len(starts) else len(text)
    first = re.search(_LINE_END, text)
    end = first[0] if first else "\n"
    new = re.sub(_LINE_END, end, new)
    if line == lines and text and not text.endswith(end):
        return f"{text}{end}{new}"  # the last line still has no end
    return f"{text[:at]}{new if new.endswith(end) else new + end}{text[at:]}"


def _all(
    place: DiskPlace, files: Path | None, depth: int, hidden: frozenset[str] = frozenset()
) -> Iterator[tuple[str, PathStatus, Path]]:
    """Yield everything below a folder, with its path as the agent writes it; the whole folder has the task's files."""
    if not stat.S_ISDIR(status(place).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "this is no folder", place.path)
    prefix = f"{FILES}/" if place.from_task else ""
    own = files is not None and not place.from_task
    for node in walk(place.root, place.parts, depth=depth, skip=hidden | {FILES} if own else hidden):
        yield prefix + node.path, node, place.root
    if files is not None and own and not place.parts:
        yield FILES, PathStatus(FILES, os.lstat(files)), files.parent
        if depth > 1:
            for node in walk(files, depth=depth - 1):
                yield f"{FILES}/{node.path}", node, files


def listing(
    place: DiskPlace, files: Path | None, *, depth: int, most: int, hidden: frozenset[str] = frozenset()
) -> list[str]:
    lines = []
    for count, (path, entry, root) in enumerate(_all(place, files, depth, hidden)):
        if count >= most:
            lines.append("... and more; list a folder of it, or search by names")
            break
        lines.append(_line(path, entry, root))
    return lines


def _line(path: str, entry: PathStatus, root: Path) -> str:
    shown_path = path.encode("utf-8", "replace").decode().replace("\n", "?")
    if entry.kind == "folder":
        note = " (the task's files, read only)" if path == FILES and root.name != "folder" else ""
        return f"{shown_path}/{note}"
    if entry.kind == "link":
        target = "?"
        with suppress(OSError), parent_of(root, parts_of(entry.path)) as (at, name):
            target = os.readlink(name, dir_fd=at)
        return f"{shown_path} -> {target[:200]} (a link; not followed)"
    if entry.kind == "other":
        return f"{shown_path} (no file: a socket, a pipe or a device)"
    return f"{shown_path} ({entry.status.st_size:,} bytes)"


def status(place: DiskPlace) -> os.stat_result:
    with naming(place):
        return status_of(place.root, place.parts)


def search(place: DiskPlace, files: Path | None, text: str, names: str, limit: int) -> str:
    hits: list[str] = []
    large: list[str] = []
    phrase = text.casefold()
    for path, entry, root in _all(place, files, 64):
        if not (fnmatch.fnmatch(path, names) or fnmatch.fnmatch(path.rpartition("/")[2], names)):
            continue
        if len(hits) >= limit:
            hits.append(f"... more than {limit}; narrow it by a folder or a pattern for names")
            break
        if not text:
            hits.append(_line(path, entry, root))
        elif entry.kind == "file":
            if entry.status.st_size > _SEARCH_BYTES:
                large.append(path)
            else:
                hits += _lines(path, entry, root, phrase, limit - len(hits))
    if large:
        hits.append(f"not searched, too large: {', '.join(large[:5])}{', ...' if len(large) > 5 else ''}")
    return "\n".join(hits)


def _lines(path: str, entry: PathStatus, root: Path, phrase: str, most: int) -> list[str]:
    from agentorchestra.tools.files.formats.base import Refused
    from agentorchestra.tools.files.formats.text import decoded as read_text

    try:
        with parent_of(root, parts_of(entry.path)) as (at, name):
            descriptor = open_file(at, name)
    except (OSError, ValueError):  # gone, or something else by now
        return []
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_SEARCH_BYTES)
    try:
        text = read_text(data).text
    except Refused:
        return []
    found_lines: list[str] = []
    for number, line in enumerate(re.split(_LINE_END, text), 1):
        at_char = line.casefold().find(phrase)
        if at_char >= 0:
            start = max(0, min(at_char, len(line)) - _LINE // 2)
            found_lines.append(f"{path}:{number}: {line[start : start + _LINE].strip()}")
            if len(found_lines) >= most:
                break
    return found_lines


def write(place: DiskPlace, temporary: _TEMPORARY, data: bytes, *, new: bool = False) -> None:
    """Write a file in one step by way of a `temporary` one beside it; replace nothing if `new`."""
    if not place.parts:
        raise IsADirectoryError(errno.EISDIR, "this is a folder", place.path or "the folder")
    temp = temporary()
    try:
        with naming(place):
            temp.write_bytes(data)
            temp.chmod(_mode_of(place))
            place_file(place.root, place.parts, temp, new=new, make=True)
    finally:
        temp.unlink(missing_ok=True)


def _mode_of(place: DiskPlace) -> int:
    try:
        mode = status_of(place.root, place.parts).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0o644
    if stat.S_ISLNK(mode):
        raise OutsideError(f"{place.path!r} is a link, and links are not followed; name the file itself, or delete it")
    if not stat.S_ISREG(mode):
        raise IsADirectoryError(errno.EISDIR, "this is a folder", place.path)
    return stat.S_IMODE(mode) & 0o777


def make_folder(place: DiskPlace) -> None:
    with folder_at(place.root, place.parts, make=True):
        pass


def move(source: DiskPlace, target: DiskPlace) -> None:
    """Move what lies there; nothing is replaced."""
    if not source.parts:
        raise ToolError("this is the folder itself; name something in it")
    if target.parts[: len(source.parts)] == source.parts:
        raise ToolError(f"{source.path} cannot be moved into itself")
    status(source)
    _refuse_taken(target)
    with (
        parent_of(source.root, source.parts) as (at, name),
        parent_of(target.root, target.parts, make=True) as (to, new),
    ):
        os.rename(name, new, src_dir_fd=at, dst_dir_fd=to)


def is_taken(place: DiskPlace) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        status_of(place.root, place.parts)
        return True
    return False


def _refuse_taken(place: DiskPlace) -> None:
    if is_taken(place):
        raise FileExistsError(errno.EEXIST, "it is there", place.path or "the folder")


def copy(source: DiskPlace, target: DiskPlace, temporary: _TEMPORARY, limits: FolderLimits) -> int:
    """Copy a file, or a folder with all that is in it; return the number of files. Links are copied as links."""
    mode = status(source).st_mode
    _refuse_taken(target)
    if not stat.S_ISDIR(mode):
        if stat.S_ISLNK(mode):
            raise OutsideError(f"{source.path!r} is a link, and links are not followed; name the file itself")
        _copy_file(source, target, temporary)
        return 1
    if not source.from_task and target.parts[: len(source.parts)] == source.parts:
        raise ToolError(f"{source.path or 'the folder'} cannot be copied into itself")
    tree = [*walk(source.root, source.parts)]
    size = sum(entry.status.st_size for entry in tree if entry.kind == "file")
    if len(tree) > limits.entries or size > limits.bytes:
        raise ToolError(f"{source.path} holds {len(tree):,} entries with {size:,} bytes, more than a folder may hold")
    make_folder(target)
    for entry in tree:
        parts = parts_of(entry.path)
        to = DiskPlace(target.root, (*target.parts, *parts[len(source.parts) :]), entry.path)
        if entry.kind == "folder":
            make_folder(to)
        elif entry.kind == "file":
            _copy_file(DiskPlace(source.root, parts, entry.path), to, temporary)
        elif entry.kind == "link":
            with parent_of(source.root, parts) as (at, name), parent_of(to.root, to.parts, make=True) as (dest, new):
                os.symlink(os.readlink(name, dir_fd=at), new, dir_fd=dest)
    return sum(1 for entry in tree if entry.kind == "file")


def _copy_file(source: DiskPlace, target: DiskPlace, temporary: _TEMPORARY) -> None:
    temp = temporary()
    try:
        with os.fdopen(_open(source), "rb") as file, temp.open("wb") as out:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777
            shutil.copyfileobj(file, out, _CHUNK)
        temp.chmod(mode | 0o600)
        place_file(target.root, target.parts, temp, new=True, make=True)
    finally:
        temp.unlink(missing_ok=True)


def name_of(url: str) -> str:
    name = unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]
    name = "".join(char for char in name if char.isprintable() and char not in '/\\:*?"<>|')[:100].strip(". ")
    return name or "download"


def unpacked_name(name: str) -> str:
    """`data` for `data.tar.gz`."""
    from agentorchestra.tools.files.formats.archives import unpacked_name as packed

    plain = packed(name)
    for suffix in (".tar", ".zip"):
        plain = plain[: -len(suffix)] if plain.lower().endswith(suffix) else plain
    return plain if plain != name else f"{name}.unpacked"


async def unpack(path: Path, target: DiskPlace, temporary: _TEMPORARY, limits: FolderLimits) -> tuple[int, list[str]]:
    """Unpack an archive, read in a process that can be killed, into a new folder: how many files, what is left out."""
    from agentorchestra.tools.files.readers import archive_members

    if not target.parts:
        raise ToolError("name a new folder that it is unpacked into")
    await asyncio.to_thread(_refuse_taken, target)
    members, notes = await archive_members(path)
    if len(members) > limits.entries:
        raise ToolError(f"it holds {len(members):,} files; at most {limits.entries:,} can be kept")

    def put() -> int:
        make_folder(target)
        count = 0
        for member in members:
            try:
                if not (parts := parts_of(member.name)):
                    raise OutsideError("it has no name")
                place = DiskPlace(target.root, (*target.parts, *parts), member.name)
                if member.folder:
                    make_folder(place)
                    continue
                write(place, temporary, member.data, new=True)
                if member.executable:
                    set_mode(place, 0o755)
                count += 1
            except (OSError, ValueError) as exc:
                notes.append(f"{member.name[:200]} was left out: {failure(exc)}")
        return count

    count = await asyncio.to_thread(put)
    return count, notes[:20] + ([f"{len(notes) - 20} more were left out"] if len(notes) > 20 else [])


def set_mode(place: DiskPlace, mode: int) -> None:
    with parent_of(place.root, place.parts) as (at, name), os.fdopen(open_file(at, name)) as file:
        os.fchmod(file.fileno(), mode)
