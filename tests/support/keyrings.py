"""A keyring of the library `keyring` that keeps its passwords in a file, as systems without a desktop have it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring import backend

FILE_VARIABLE = "TESTS_KEYRING_FILE"
"""The environment variable with the file; without it the keyring is locked."""


class FileKeyring(backend.KeyringBackend):
    """Keeps passwords in the file; `asked` counts how often one was wanted, by user."""

    priority = 1.0
    asked: dict[str, int] = {}  # noqa: RUF012 - of all instances: the library makes them

    def _held(self) -> dict[str, str]:
        if not os.environ.get(FILE_VARIABLE):
            raise OSError("the keyring is locked")
        file = Path(os.environ[FILE_VARIABLE])
        held: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
        return held

    def get_password(self, service: str, username: str) -> str | None:
        """Return it, None where there is none."""
        self.asked[username] = self.asked.get(username, 0) + 1
        return self._held().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        """Keep it."""
        held = self._held() | {f"{service}/{username}": password}
        Path(os.environ[FILE_VARIABLE]).write_text(json.dumps(held))

    def delete_password(self, service: str, username: str) -> Any:
        """Forget it."""
        raise NotImplementedError


@pytest.fixture
def system_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a keyring that this process uses; it is empty."""
    before, file = keyring.get_keyring(), tmp_path.parent / f"{tmp_path.name}-keyring.json"
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    FileKeyring.asked.clear()
    keyring.set_keyring(FileKeyring())  # type: ignore[no-untyped-call]
    yield file
    keyring.set_keyring(before)
