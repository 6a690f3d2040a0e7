"""Which blobs a run refers to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from agentorchestra.log.store.references import BATCH, is_json, names_in, references


def name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Blobs:
    """A table of blobs that counts what it is asked for."""

    def __init__(self, json_blobs: dict[str, object] | None = None, others: Iterable[str] = ()) -> None:
        self.data: dict[str, bytes | None] = dict.fromkeys(others)
        self.data |= {key: json.dumps(value).encode() for key, value in (json_blobs or {}).items()}
        self.asked: list[str] = []
        self.largest = 0

    def __call__(self, names: list[str]) -> Iterable[tuple[str, bytes | None]]:
        self.asked += names
        self.largest = max(self.largest, len(names))
        return [(one, self.data[one]) for one in names if one in self.data]


def test_every_place_of_a_name_counts() -> None:
    a, b, c, d = (name(one) for one in "abcd")
    body = {"outcome": {"artifacts": [{"sha256": a}], "writes": {f"file:{b}": None, "state": c}, "text": f"({d})"}}
    for text in (json.dumps(body), json.dumps(body).encode()):
        assert names_in(text) == {a, b, c, d}


def test_what_is_no_name() -> None:
    long = name("a") + name("b")
    assert names_in(f'"{long}" "{name("a")[:63]}" "{name("a").upper()}" "x{name("a")}"') == set()
    assert names_in(b'"' + name("a").encode() + b'0"') == set()


def test_json_blobs_are_followed_and_others_are_not() -> None:
    body, inner, leaf, never, there = (name(one) for one in ("body", "inner", "leaf", "never", "there"))
    blobs = Blobs({body: {"x": [inner]}, inner: {"y": {"sha256": leaf}, "back": body}}, others=[leaf, there])
    assert references([f'{{"$blob":"{body}"}}', f'"{never}"'], blobs) == {body, inner, leaf}


def test_a_circle_ends_and_each_name_is_asked_once() -> None:
    a, b = name("a"), name("b")
    blobs = Blobs({a: [b], b: [a, b]})
    assert references([f'"{a}"', f'"{a}"', f'"{b}"'], blobs) == {a, b}
    assert sorted(blobs.asked) == sorted({a, b})


def test_many_names_are_looked_up_in_batches() -> None:
    every = [name(str(number)) for number in range(3 * BATCH + 7)]
    blobs = Blobs(others=every[::2])
    assert references([json.dumps(every)], blobs) == set(every[::2])
    assert blobs.largest <= BATCH
    assert len(blobs.asked) == len(every)


def test_media_types() -> None:
    assert is_json("application/json") and is_json("application/json; charset=utf-8") and is_json("application/a+json")
    assert not is_json("application/octet-stream") and not is_json("text/plain")
