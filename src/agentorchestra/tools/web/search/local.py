"""`local`: full text over the task's files and over folders: the index of tools/files, asked for whole files."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from agentorchestra.core.errors import FileInputError, ToolError, WorkspaceNotWritableError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SearchEngineSettings, SearchFolder
from agentorchestra.core.spec import FileRef
from agentorchestra.tools.files.common import best_passages, with_index
from agentorchestra.tools.files.index import PassageHit, PassageIndex, query_words
from agentorchestra.tools.files.indexer import bring_up
from agentorchestra.tools.files.storage import keep_files
from agentorchestra.tools.web.addresses import parse_address
from agentorchestra.tools.web.search.service import day_of, of_site, plain
from agentorchestra.tools.web.search.types import EngineError, Query, SearchResult, Traits

_PASSAGES = 5  # that are looked at for each result that is wanted: several may be of one file
_SNIPPETS = 3  # passages of a file that its result shows
_PREFIX = "searched-"
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})</title", re.IGNORECASE)
_CANONICAL = re.compile(r"<link[^>]{0,300}rel=[\"']?canonical[^>]{0,300}>", re.IGNORECASE)
_HREF = re.compile(r"href=[\"']?([^\"'\s>]{1,500})", re.IGNORECASE)
_DATE_MARKS = (
    re.compile(
        r"<meta[^>]{0,200}(?:property|name|itemprop)=[\"']?(?:article:published_time|datepublished|date)[\"']?[^>]{0,200}>",
        re.IGNORECASE,
    ),
    re.compile(r"<time[^>]{0,200}datetime=[^>]{0,200}>", re.IGNORECASE),
)


@dataclass(frozen=True)
class _Entry:
    ref: FileRef
    path: Path
    name: str
    base: str = ""
    of_task: bool = False


class Local:
    """The engine; the index and the contents lie in the workspace's `folder`."""

    name = "local"

    def __init__(
        self, folder: Path, folders: Sequence[SearchFolder], settings: SearchEngineSettings, *, near: Path = Path()
    ) -> None:
        self._folder = folder
        self._near = near
        self._folders = tuple(folders)
        self.traits = Traits(
            frozenset({"local"}),
            network=False,
            timeout_s=settings.timeout_s or 90.0,  # the first search reads what is new
            about="the files of the task and the folders of this machine that the settings name",
        )

    @property
    def has_folders(self) -> bool:
        """True if there is something to search in every run."""
        return bool(self._folders)

    def missing(self) -> str:
        """Return "": a run may have files."""
        return ""

    async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        """Return the files with the best passages, each with the passage that fits best."""
        if not ctx.manifest.files and not self._folders:
            raise EngineError("has nothing to search: the task has no files, and search.folders names none")
        if not query_words(query.text):
            raise ToolError("the query holds no word to search for")
        with self._place() as place:
            entries = await asyncio.to_thread(self._entries, ctx, place)
            if query.site:
                entries = [entry for entry in entries if entry.base and of_site(entry.base, query.site)]
            paths = {entry.ref.name: entry.path for entry in entries}
            files: Any = SimpleNamespace(file=paths.__getitem__, progress=ctx.progress)  # what the index asks of a run
            seconds = max(1.0, (self.traits.timeout_s or 90.0) * 0.8)

            async def work(index: PassageIndex) -> list[PassageHit]:
                await bring_up(files, index, [entry.ref for entry in entries], seconds=seconds)
                slow = EngineError("takes too long: the words are in too many passages; give rarer ones")
                hashes = [entry.ref.sha256 for entry in entries]
                return await best_passages(index, query.text, hashes, query.limit * _PASSAGES, slow)

            hits = await with_index(self._folder, work)
            return await asyncio.to_thread(_results, hits, entries, query.limit)

    async def copy_of(self, address: str) -> tuple[bytes, str] | None:
        """Return what the copy of a site has at an address, and its media type; None where no folder has it."""
        sites = [parse_address(f"{folder.address.rstrip('/')}/").url for folder in self._folders if folder.address]
        if not address.startswith((*sites,)):
            return None
        with self._place() as place:
            return await asyncio.to_thread(self._copy_of, address, place)

    def _copy_of(self, address: str, place: Path) -> tuple[bytes, str] | None:
        entries = [folder for folder in self._in_folders(place) if folder.base]
        for head in (lambda _: "", _head):  # by their paths first: no file has to be read for that
            for entry in entries:
                if parse_address(_address(entry, head(entry))).url == address:
                    return entry.path.read_bytes(), entry.ref.media_type
        return None

    @contextmanager
    def _place(self) -> Iterator[Path]:
        """Hold a place for names of the folders' contents while they are searched."""
        if not self._folders:
            yield self._folder
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in self._folder.glob(f"{_PREFIX}*"):  # of a process that was killed
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > 3_600:
                    shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=self._folder) as place:
            yield Path(place)

    def _entries(self, ctx: RunContext[Any], place: Path) -> list[_Entry]:
        task_files = [_Entry(ref, ctx.file(ref.name), ref.name, of_task=True) for ref in ctx.manifest.files]
        return [*task_files, *self._in_folders(place)]

    def _in_folders(self, place: Path) -> list[_Entry]:
        entries = list[_Entry]()
        for number, folder in enumerate(self._folders):
            source = self._near / folder.path
            target = place / str(number)
            try:
                contents = keep_files([source], self._folder / "files", target, apart=self._folder)
            except (FileInputError, WorkspaceNotWritableError) as error:
                raise EngineError(f"cannot read its folder {folder.path}: {error}") from None
            for ref in contents.refs:
                below = ref.name.partition("/")[2] or ref.name
                alias = ref.model_copy(update={"name": f"{number}//{ref.name}"})
                entries.append(_Entry(alias, target / ref.name, f"{folder.path.rstrip('/')}/{below}", folder.address))
        return entries


def _results(hits: Sequence[PassageHit], entries: Sequence[_Entry], limit: int) -> list[SearchResult]:
    """Return one result for each file, with the place of its best passage and the words of its best few."""
    by_hash: dict[str, _Entry] = {}
    for entry in entries:
        by_hash.setdefault(entry.ref.sha256, entry)
    by_file: dict[str, list[PassageHit]] = {}
    for hit in hits:
        if hit.sha256 in by_file or len(by_file) < limit:
            by_file.setdefault(hit.sha256, []).append(hit)
    return [_result(of_file[:_SNIPPETS], by_hash[sha256]) for sha256, of_file in by_file.items()]


def _result(hits: Sequence[PassageHit], entry: _Entry) -> SearchResult:
    head = _head(entry)
    title = _TITLE.search(head)
    day = next((day for mark in _DATE_MARKS if (match := mark.search(head)) and (day := day_of(match[0]))), None)
    return SearchResult(
        title=plain(unescape(title[1])) if title else entry.name,
        address=_address(entry, head),
        snippet=" … ".join(plain(hit.text, 600) for hit in hits),
        date=day,
        place=hits[0].place or None,
        mirrored=bool(entry.base),
    )


def _head(entry: _Entry) -> str:
    """Return the beginning of a page, "" for another file."""
    if entry.ref.media_type not in ("text/html", "application/xhtml+xml"):
        return ""
    with entry.path.open("rb") as file:
        return file.read(65_536).decode("utf-8", "replace")


def _address(entry: _Entry, head: str) -> str:
    """Return where a file is read: by its name, or at the site that it is a copy of."""
    if not entry.base:
        return entry.name
    base = entry.base.rstrip("/") + "/"
    match = _CANONICAL.search(head)
    href = _HREF.search(match[0]) if match else None
    if href is not None:
        with suppress(ValueError):  # what the page names as its address is none
            address = str(urljoin(base, href[1]))
            # Clients resolve dots, escaped ones too: such an address would lead out of the site.
            if address.startswith(base) and not {".", ".."} & {*unquote(urlsplit(address).path).split("/")}:
                return address
    below = entry.ref.name.partition("//")[2].partition("/")[2]
    return base + quote(re.sub(r"(^|/)index\.html?$", r"\1", below), safe="/")
