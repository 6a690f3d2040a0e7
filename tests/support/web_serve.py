"""What `tests/web/test_serve.py` and other tests share."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cli.support import Folder, Started

TOKEN = "token-of-the-tests-0123"


@contextmanager
def serving(folder: Folder, *words: str, **options: Any) -> Iterator[tuple[Started, str]]:
    """A server on a free port, and its address."""
    with folder.start("serve", "--port", "0", *words, **options) as started:
        assert started.process.stdout is not None
        yield started, started.process.stdout.readline().strip()


def ask(address: str, path: str, token: str, body: Any = None) -> Any:
    """The JSON of an answer."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
