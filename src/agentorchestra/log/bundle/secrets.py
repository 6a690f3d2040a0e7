"""Refuses to write what must not leave the machine: the values of known secrets, wherever they stand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from agentorchestra.core.errors import BundleError

_SHORTEST = 6  # as in redact.py: shorter values are ordinary words
_SHORTEST_GUESSED = 8
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|PGPASSWORD"
    r"|KEY)(?:$|_)",
    re.IGNORECASE,
)


def secret_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment's variables whose names say that they are secret."""
    return {
        name: value
        for name, value in environ.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_GUESSED and not value.startswith(("/", "~"))
    }


class SecretScanner:
    """Looks for secrets, given by name, in bytes."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._forms: list[tuple[bytes, str]] = []
        for name, value in sorted(secrets.items()):
            if len(value) < _SHORTEST:
                continue
            texts = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
            forms = {text.encode("utf-8", "surrogatepass") for text in texts}
            forms |= {value.encode(code, "surrogatepass") for code in ("utf-16-le", "utf-16-be")}
            self._forms += [(form, name) for form in sorted(forms)]
        # Bytes of the end of one piece that must be looked at again with the next one.
        self.overlap = max((len(form) for form, _ in self._forms), default=1) - 1

    def check(self, data: bytes, place: str) -> None:
        """Look at some bytes; raise BundleError naming the secret and `place`."""
        for form, name in self._forms:
            if form in data:
                raise BundleError(
                    f"{place} holds the value of the secret {name}, and a bundle is made to be given away: it was not "
                    f"written. Give {name} a new value (this one is in the workspace's log), or take it out of there, "
                    "and export again"
                )
