"""What retrieval shares in a workspace: the embedder and the vectors that are kept."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import ToolError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.protocols import Store
from agentorchestra.core.query import LogQuery
from agentorchestra.core.vectors import unpack
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.store.pages import selected_events
from agentorchestra.tea.retrieval.discovery import Finder
from agentorchestra.tea.retrieval.retriever import Embed, Retriever

Perform = Callable[[Callable[[Any], Effect]], Awaitable[Outcome]]
"""Lets an effect through the door outside of a run: `DirectCalls.perform`."""

FORMAT = 1
"""Of the file with vectors. 1: a line of JSON (format, model, numbers), then for each text its SHA-256 and its vector,
little-endian, in single precision."""

CALLED = {EffectKind.INVOKE_TOOL: "tool", EffectKind.INVOKE_ACTION: "environment", EffectKind.INVOKE_AGENT: "agent"}
"""The kinds of component whose calls are effects."""


class Called(NamedTuple):
    """A call of a component that is over, and whether it gave a result."""

    kind: str
    name: str
    run: str
    ok: bool


async def calls_in(store: Store, runs: Iterable[str]) -> list[Called]:
    """Return the calls of these runs, by the log."""
    found = []
    for run in runs:
        wanted = LogQuery(runs=(run,), types=("started", "completed"))
        events = [event async for event in selected_events(store, wanted)]
        for record in Ledger.of(events).records.values():
            kind = CALLED.get(record.kind) if record.effect else None
            if kind is not None and record.outcome is not None:
                name = str(record.effect.get("component", "")).rpartition("@")[0]
                found.append(Called(kind, name, run, record.outcome.ok))
    return found


class Finding:
    """Retrievers and finders of one open workspace; `folder` keeps vectors between processes, None in memory only."""

    def __init__(self, store: Store, perform: Perform, *, model: str, folder: Path | None) -> None:
        self._store = store
        self._perform = perform
        self._model = model
        kept = folder / f"{sha256_text(model)[:16]}.vectors" if model and folder is not None else None
        self._vectors: MutableMapping[str, Sequence[float]] = KeptVectors(kept, model) if kept is not None else {}
        self.finder = Finder(self.retriever(), model=model)

    def retriever(self) -> Retriever:
        """Return a new retriever."""
        embed: Embed | None = self._embed if self._model else None
        return Retriever(embed, vectors=self._vectors)

    async def _embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        def effect(root: Any) -> Effect:
            return Effect(
                kind=EffectKind.EMBED,
                component=f"{self._model}@1.0.0",
                arguments={"texts": [*texts], "model": self._model},
                mode=Mode.REPEATABLE,
                role=root.role,
                purpose="retrieval",
            )

        outcome = await self._perform(effect)
        if not outcome.ok or not isinstance(outcome.value, dict):
            raise ToolError(outcome.error or f"{self._model} gave no vectors")
        value: dict[str, Any] = dict(outcome.value)
        return unpack(await self._store.get_blob(value["vectors"]), value["dimensions"])


class KeptVectors(MutableMapping[str, Sequence[float]]):
    """Vectors of one model by the SHA-256 of their texts, in a file that is only added to."""

    def __init__(self, path: Path, model: str) -> None:
        self._path = path
        self._model = model
        self._known: dict[str, array[float]] | None = None
        self._head = b""

    def __getitem__(self, digest: str) -> Sequence[float]:
        return self._read()[digest]

    def __setitem__(self, digest: str, vector: Sequence[float]) -> None:
        known = self._read()
        known[digest] = array("f", vector)
        added = {digest: known[digest]}
        head = json.dumps({"format": FORMAT, "model": self._model, "numbers": len(vector)}).encode() + b"\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # One write for each vector, at the end of the file: several processes may do so.
        with self._path.open("ab" if self._head == head else "wb") as file:
            if self._head != head:
                file.write(head)
                self._head = head
                added = {one: kept for one, kept in known.items() if len(kept) == len(vector)}
            for one, numbers in added.items():
                file.write(bytes.fromhex(one) + _little(numbers).tobytes())

    def __delitem__(self, digest: str) -> None:
        del self._read()[digest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> dict[str, array[float]]:
        if self._known is None:
            self._known = {}
            try:
                data = self._path.read_bytes()
            except OSError:
                return self._known
            head, _, rest = data.partition(b"\n")
            numbers = _numbers(head, self._model)
            size = 32 + 4 * numbers
            # What a process that was killed left at the end is no whole record, and nothing may be added behind it.
            if numbers and len(rest) % size == 0:
                self._head = head + b"\n"
            for start in range(0, len(rest) - size + 1, size) if numbers else ():
                vector = array("f")
                vector.frombytes(rest[start + 32 : start + size])
                self._known[rest[start : start + 32].hex()] = _little(vector)
        return self._known


def _little(numbers: array[float]) -> array[float]:
    """Return the same numbers with their bytes in the file's order, from either."""
    if sys.byteorder == "little":
        return numbers
    swapped = array("f", numbers)
    swapped.byteswap()
    return swapped


def _numbers(head: bytes, model: str) -> int:
    """Return how many numbers a vector of the file has; 0 for a file of another format or model."""
    try:
        said = json.loads(head)
    except ValueError:
        return 0
    fits = isinstance(said, dict) and said.get("format") == FORMAT and said.get("model") == model
    numbers = said.get("numbers") if fits else 0
    return numbers if isinstance(numbers, int) and 0 < numbers <= 100_000 else 0
