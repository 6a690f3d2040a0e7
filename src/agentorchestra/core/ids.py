"""Identifiers: runs get `run_` + ULID; everything inside a run derives from its seed."""

from __future__ import annotations

import hashlib
import json
import json.encoder
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeGuard

from ulid import ULID


def new_run_id() -> str:
    """Return a new run id, sortable by creation time: `run_` + 26 characters of Crockford base 32."""
    return f"run_{ULID()}"


PART = "part_"
"""How the ids of parts begin: runs in which an agent of another run works (docs/cluster.md). Lists leave them out."""


def part_id(run: str, key: EffectKey) -> str:
    """Return the id of the part that begins with a key of a run: whoever drives the run next finds it again.

    The attempt is not in it: of two processes that both believe to drive the run, the second one finds what the first
    one made.
    """
    return f"{PART}{sha256_text(f'{run} {key}')[:26]}"


def compact_encoder(*, sort_keys: bool = False, allow_nan: bool = True) -> Callable[[Any], str]:
    """Return a function that writes JSON without white space, not in ASCII.

    `JSONEncoder.encode` makes the encoder anew for every value, which costs more than most values.
    """
    plain = json.JSONEncoder(sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False, allow_nan=allow_nan)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return plain.encode
    encode = make(None, plain.default, json.encoder.encode_basestring, None, ":", ",", sort_keys, False, allow_nan)
    return lambda value: "".join(encode(value, 0))


_CANONICAL = compact_encoder(sort_keys=True, allow_nan=False)


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no white space: equal values give equal text.

    Raises:
        ValueError: for NaN and infinities, which JSON does not have.
        TypeError: for values that are not JSON.
    """
    return _CANONICAL(value)


_NESTS = (dict, list, tuple)
_PLAIN = frozenset({str, bool, type(None)})
_LARGE = 1 << 63


def is_plain(value: object) -> TypeGuard[str | int | bool | None]:
    """Return True for a text, a whole number (of 64 bits), a boolean or None: JSON that needs no further look."""
    return type(value) in _PLAIN or (type(value) is int and -_LARGE < value < _LARGE)


def is_flat(values: Mapping[Any, Any]) -> bool:
    """Return True if these are plain values by name."""
    for name, value in values.items():  # noqa: SIM110 - every call comes by here, and a generator is slower
        if type(name) is not str or not is_plain(value):
            return False
    return True


def copy_json(value: Any) -> Any:
    """Return a copy of a JSON value; what cannot change is not copied."""
    if isinstance(value, dict):
        return {key: copy_json(member) if isinstance(member, _NESTS) else member for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(member) if isinstance(member, _NESTS) else member for member in value]
    return value


def sha256_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sha256_json(value: Any) -> str:
    """Return the hex SHA-256 of the canonical JSON."""
    return hashlib.sha256(_CANONICAL(value).encode("utf-8", "surrogatepass")).hexdigest()


class EffectKey(NamedTuple):
    """The place of an effect in its run: the branch and the number drawn on it."""

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
        """Return the key of `str(key)`; ValueError if the text is not `branch#n`."""
        branch, sep, number = text.rpartition("#")
        if not sep or not number.isdigit() or not branch.startswith("/"):
            raise ValueError(f"{text!r} is not an effect key; keys look like '/3.planner#2'")
        return cls(branch, int(number))


def derived_id(seed: str, branch: str, n: int, counter: int, prefix: str = "") -> str:
    """Return an id that a resumed, replayed or forked run derives again (never from the run id)."""
    digest = sha256_text(f"{seed}|{branch}|{n}|{counter}")[:20]
    return f"{prefix}{digest}"


def derived_random(seed: str, branch: str, n: int) -> random.Random:
    """Return a generator whose sequence depends on the seed and the key only."""
    return random.Random(int(sha256_text(f"{seed}|{branch}|{n}|random")[:16], 16))
