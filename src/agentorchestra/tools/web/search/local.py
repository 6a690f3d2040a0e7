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
_SHOWN = 3  # passages of a file that its result shows
_PREFIX = "searched-"
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})</title", re.IGNORECASE)
_CANONICAL = re.compile(r"<link[^>]{0,300}rel=[\"']?canonical[^>]{0,300}>", re.IGNORECASE)
_HREF = re.compile(r"href=[\"']?([^\"'\s>]{1,500})", re.IGNORECASE)
_PUBLISHED = (
    re.compile(
        r"<meta[^>]{0,200}(?:property|name|itemprop)=[\"']?(?:article:published_time|datepublished|date)[\"']?[^>]{0,200}>",
        re.IGNORECASE,
    ),
    re.compile(r"<time[^>]{0,200}datetime=[^>]{0,200}>", re.IGNORECASE),
)


@dataclass(frozen=True)
class _Known:
    ref: FileRef
    path: Path
    name: str
    base: str = ""
    given: bool = False


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
        with self._kept() as place:
            known = await asyncio.to_thread(self._known, ctx, place)
            if query.site:
                known = [one for one in known if one.base and of_site(one.base, query.site)]
            paths = {one.ref.name: one.path for one in known}
            files: Any = SimpleNamespace(file=paths.__getitem__, progress=ctx.progress)  # what the index asks of a run
            seconds = max(1.0, (self.traits.timeout_s or 90.0) * 0.8)

            async def work(index: PassageIndex) -> list[PassageHit]:
                await bring_up(files, index, [one.ref for one in known], seconds=seconds)
                slow = EngineError("takes too long: the words are in too many passages; give rarer ones")
                hashes = [one.ref.sha256 for one in known]
                return await best_passages(index, query.text, hashes, query.limit * _PASSAGES, slow)

            hits = await with_index(self._folder, work)
            return await asyncio.to_thread(_results, hits, known, query.limit)

    async def copy_of(self, address: str) -> tuple[bytes, str] | None:
        """Return what the copy of a site has at an address, and its media type; None where no folder has it."""
        sites = [parse_address(f"{folder.address.rstrip('/')}/").url for folder in self._folders if folder.address]
        if not address.startswith((*sites,)):
            return None
        with self._kept() as place:
            return await asyncio.to_thread(self._copy_of, address, place)

    def _copy_of(self, address: str, place: Path) -> tuple[bytes, str] | None:
        known = [folder for folder in self._in_folders(place) if folder.base]
        for head in (lambda _: "", _head):  # by their paths first: no file has to be read for that
            for one in known:
                if parse_address(_address(one, head(one))).url == address:
                    return one.path.read_bytes(), one.ref.media_type
        return None

    @contextmanager
    def _kept(self) -> Iterator[Path]:
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

    def _known(self, ctx: RunContext[Any], place: Path) -> list[_Known]:
        given = [_Known(ref, ctx.file(ref.name), ref.name, given=True) for ref in ctx.manifest.files]
        return [*given, *self._in_folders(place)]

    def _in_folders(self, place: Path) -> list[_Known]:
        known = list[_Known]()
        for number, folder in enumerate(self._folders):
            source = self._near / folder.path
            target = place / str(number)
            try:
                kept = keep_files([source], self._folder / "files", target, apart=self._folder)
            except (FileInputError, WorkspaceNotWritableError) as error:
                raise EngineError(f"cannot read its folder {folder.path}: {error}") from None
            for ref in kept.refs:
                below = ref.name.partition("/")[2] or ref.name
                renamed = ref.model_copy(update={"name": f"{number}//{ref.name}"})
                known.append(_Known(renamed, target / ref.name, f"{folder.path.rstrip('/')}/{below}", folder.address))
        return known


def _results(hits: Sequence[PassageHit], known: Sequence[_Known], limit: int) -> list[SearchResult]:
    """Return one result for each file, with the place of its best passage and the words of its best few."""
    by_hash: dict[str, _Known] = {}
    for one in known:
        by_hash.setdefault(one.ref.sha256, one)
    found: dict[str, list[PassageHit]] = {}
    for hit in hits:
        if hit.sha256 in found or len(found) < limit:
            found.setdefault(hit.sha256, []).append(hit)
    return [_result(of_file[:_SHOWN], by_hash[sha256]) for sha256, of_file in found.items()]


def _result(hits: Sequence[PassageHit], known: _Known) -> SearchResult:
    head = _head(known)
    title = _TITLE.search(head)
    day = next((day for one in _PUBLISHED if (match := one.search(head)) and (day := day_of(match[0]))), None)
    return SearchResult(
        title=plain(unescape(title[1])) if title else known.name,
        address=_address(known, head),
        snippet=" … ".join(plain(hit.text, 600) for hit in hits),
        date=day,
        place=hits[0].place or None,
        mirrored=bool(known.base),
    )


def _head(known: _Known) -> str:
    """Return the beginning of a page, "" for another file."""
    if known.ref.media_type not in ("text/html", "application/xhtml+xml"):
        return ""
    with known.path.open("rb") as file:
        return file.read(65_536).decode("utf-8", "replace")


def _address(known: _Known, head: str) -> str:
    """Return where a file is read: by its name, or at the site that it is a copy of."""
    if not known.base:
        return known.name
    base = known.base.rstrip("/") + "/"
    match = _CANONICAL.search(head)
    href = _HREF.search(match[0]) if match else None
    if href is not None:
        with suppress(ValueError):  # what the page names as its address is none
            address = str(urljoin(base, href[1]))
            # Clients resolve dots, escaped ones too: such an address would lead out of the site.
            if address.startswith(base) and not {".", ".."} & {*unquote(urlsplit(address).path).split("/")}:
                return address
    below = known.ref.name.partition("//")[2].partition("/")[2]
    return base + quote(re.sub(r"(^|/)index\.html?$", r"\1", below), safe="/")
