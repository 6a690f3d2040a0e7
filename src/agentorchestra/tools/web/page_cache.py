"""Pages that a workspace keeps in its own folder, bounded in size: no workspace sees what another one read."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import tempfile
from pathlib import Path

from agentorchestra.tools.web.pages import Page


class KeptPages:
    """The pages of one workspace, below `folder` (None keeps none), each for `max_age_s`. What fails is only slower."""

    def __init__(self, folder: Path | None, max_bytes: int, max_age_s: float) -> None:
        self._folder = folder if max_bytes > 0 else None
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s

    def get(self, url: str, reader: str) -> tuple[Page, bytes] | None:
        """Return a page and the bytes it was read from; None where it is not kept, or for too long. Blocks."""
        if self._folder is None:
            return None
        path = self._path(url, reader)
        try:
            with path.open("rb") as file:
                page = Page.from_json(json.loads(file.readline()))
                body = file.read()
            age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(page.read_at)
            if page.url != url or len(body) != page.size or not 0 <= age.total_seconds() + 1 <= self._max_age_s + 1:
                return None
            os.utime(path)  # used: those that are not go first
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return page, body

    def put(self, page: Page, body: bytes) -> None:
        """Keep a page. Blocks."""
        if self._folder is None:
            return
        data = json.dumps(page.to_json(), ensure_ascii=False).encode("utf-8", "replace") + b"\n" + body
        if len(data) > self._max_bytes // 4:
            return
        path = self._path(page.url, page.reader)
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
        """Remove the pages that were not used for longest, where there are too many."""
        assert self._folder is not None
        found = []
        for path in self._folder.glob("*/*"):
            with contextlib.suppress(OSError):
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_size, path))
        total = sum(size for _, size, _ in found)
        if total <= self._max_bytes:
            return
        for _, size, path in sorted(found):
            if total <= self._max_bytes * 0.8:  # so that not each new page removes one
                break
            if path != but:
                path.unlink(missing_ok=True)
                total -= size

    def _path(self, url: str, reader: str) -> Path:
        assert self._folder is not None
        key = hashlib.sha256(f"{reader}\n{url}".encode()).hexdigest()
        return self._folder / key[:2] / key
