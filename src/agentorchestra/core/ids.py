"""Identifiers: runs get `run_` + ULID; everything inside a run derives from its seed."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any, NamedTuple

from ulid import ULID


def new_run_id() -> str:
    """A new run id, sortable by creation time: `run_` + 26 characters of Crockford base 32."""
    return f"run_{ULID()}"


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space: equal values give equal text.

    Raises:
        ValueError: for NaN and infinities, which JSON does not have.
        TypeError: for values that are not JSON.
    """
    return _CANONICAL.encode(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_text(text: str) -> str:
    """Hex SHA-256 of the UTF-8 text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sha256_json(value: Any) -> str:
    """Hex SHA-256 of the canonical JSON."""
    return sha256_text(canonical_json(value))


class EffectKey(NamedTuple):
    """Where an effect stands in its run: the branch and the number drawn on it."""

    branch: str
    n: int

    def __str__(self) -> str:
        return f"{self.branch}#{self.n}"

    @property
    def path(self) -> str:
        """The branch this effect opens when it is composite, without its name."""
        return f"{self.branch.rstrip('/')}/{self.n}"

    @classmethod
    def parse(cls, text: str) -> EffectKey:
        """The inverse of `str(key)`.

        Raises:
            ValueError: if the text is not `branch#n`.
        """
        branch, sep, number = text.rpartition("#")
        if not sep or not number.isdigit() or not branch.startswith("/"):
            raise ValueError(f"{text!r} is not an effect key; keys look like '/3.planner#2'")
        return cls(branch, int(number))


def derived_id(seed: str, branch: str, n: int, counter: int, prefix: str = "") -> str:
    """An id that a resumed, replayed or forked run derives again (never from the run id)."""
    digest = sha256_text(f"{seed}|{branch}|{n}|{counter}")[:20]
    return f"{prefix}{digest}"


def derived_random(seed: str, branch: str, n: int) -> random.Random:
    """A generator whose sequence depends on the seed and the key only."""
    return random.Random(int(sha256_text(f"{seed}|{branch}|{n}|random")[:16], 16))
