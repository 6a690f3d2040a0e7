"""Pages and results of searches that a workspace keeps in its own folder, bounded in size.

No workspace sees what another one read. What fails here is only slower.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from agentorchestra.tools.web.pages import Page

_MOST_RESULTS = 50 * 1024 * 1024


class _Kept:
    """Files below `folder` (None keeps none), by keys. All methods block."""

    def __init__(self, folder: Path | None, max_bytes: int) -> None:
        self._folder = folder if max_bytes > 0 else None
        self._max_bytes = max_bytes

    def _read(self, key: str) -> bytes | None:
        if self._folder is None:
            return None
        try:
            data = self._path(key).read_bytes()
            os.utime(self._path(key))  # used: those that are not go first
        except OSError:
            return None
        return data

    def _write(self, key: str, data: bytes) -> None:
        if self._folder is None or len(data) > self._max_bytes // 4:
            return
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, new = tempfile.mkstemp(prefix="new-", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                Path(new).replace(path)
            finally:
                Path(new).unlink(missing_ok=True)
            self._sweep(path)

    def _sweep(self, but: Path) -> None:
        """Remove what was not used for longest, where there is too much."""
        assert self._folder is not None
        entries = []
        for path in self._folder.glob("*/*"):
            with contextlib.suppress(OSError):
                stat = path.stat()
                entries.append((stat.st_mtime_ns, stat.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self._max_bytes:
            return
        for _, size, path in sorted(entries):
            if total <= self._max_bytes * 0.8:  # so that not each new one removes another
                break
            if path != but:
                path.unlink(missing_ok=True)
                total -= size

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._folder / name[:2] / name


def _is_young(moment: str, max_age_s: float) -> bool:
    """Return whether a moment lies at most so many seconds back, give or take one; ValueError for no moment."""
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(moment)
    return 0 <= age.total_seconds() + 1 <= max_age_s + 1


class KeptPages(_Kept):
    """The pages of one workspace, each for `max_age_s`."""

    def __init__(self, folder: Path | None, max_bytes: int, max_age_s: float) -> None:
        super().__init__(folder, max_bytes)
        self._max_age_s = max_age_s

    def get(self, url: str, reader: str, encoding: str = "") -> tuple[Page, bytes] | None:
        """Return a page and the bytes it was read from; None where it is not kept, or for too long. Blocks."""
        data = self._read(f"{reader}{encoding}\n{url}")
        if data is None:
            return None
        head, _, body = data.partition(b"\n")
        try:
            page = Page.from_json(json.loads(head))
            whole = page.url == url and len(body) == page.size and _is_young(page.read_at, self._max_age_s)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return (page, body) if whole else None

    def put(self, page: Page, body: bytes, encoding: str = "") -> None:
        """Keep a page, read in an encoding that was named or looked for (""). Blocks."""
        head = json.dumps(page.to_json(), ensure_ascii=False).encode("utf-8", "replace")
        self._write(f"{page.reader}{encoding}\n{page.url}", head + b"\n" + body)


class KeptResults(_Kept):
    """What search engines gave in one workspace, each for `max_age_s`; 0 keeps none."""

    def __init__(self, folder: Path | None = None, max_age_s: float = 0.0) -> None:
        super().__init__(folder if max_age_s > 0 else None, _MOST_RESULTS)
        self._max_age_s = max_age_s

    def get(self, engine: str, query: Mapping[str, JsonValue]) -> list[JsonValue] | None:
        """Return what an engine gave when it was asked the same; None where it is not kept, or for too long. Blocks."""
        data = self._read(_key(engine, query))
        try:
            entry = json.loads(data) if data is not None else None
            return entry["results"] if entry is not None and _is_young(entry["at"], self._max_age_s) else None
        except (ValueError, KeyError, TypeError):
            return None

    def put(self, engine: str, query: Mapping[str, JsonValue], results: Sequence[JsonValue]) -> None:
        """Keep what an engine gave. Blocks."""
        at = datetime.datetime.now(datetime.UTC).isoformat()
        self._write(_key(engine, query), json.dumps({"at": at, "results": [*results]}).encode())


def _key(engine: str, query: Mapping[str, JsonValue]) -> str:
    return f"search {engine}\n{json.dumps(query, sort_keys=True)}"
