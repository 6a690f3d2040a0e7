"""What retrieval shares in a workspace: the embedder, the vectors that are kept, what was of use before."""

from __future__ import annotations

import sqlite3
from array import array
from collections import ChainMap, Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import ToolError
from agentorchestra.core.ids import PART, sha256_text
from agentorchestra.core.protocols import Store
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import FINAL
from agentorchestra.core.vectors import unpack
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.store.pages import selected_events
from agentorchestra.tea.retrieval.discovery import Finder
from agentorchestra.tea.retrieval.retriever import Embed, Retriever

Perform = Callable[[Callable[[Any], Effect]], Awaitable[Outcome]]
"""Lets an effect through the door outside of a run: `DirectCalls.perform`."""

RUNS_COUNTED = 50  # runs of earlier processes, the newest, whose calls count as having been of use


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
        kept = folder / f"{sha256_text(model)[:16]}.sqlite" if model and folder is not None else None
        self._vectors: MutableMapping[str, Sequence[float]] = KeptVectors(kept) if kept is not None else {}
        self._uses: dict[str, Counter[str]] = {kind: Counter() for kind in CALLED.values()}
        self._uncounted: list[str] | None = None
        counted = ChainMap(self._uses["tool"], self._uses["agent"])
        self.finder = Finder(self._made({}), model=model, uses=counted)

    def retriever(self, kind: str) -> Retriever:
        """Return a retriever for the components of a kind, by name."""
        return self._made(self._uses.get(kind, Counter()))

    def _made(self, uses: MutableMapping[str, int]) -> Retriever:
        embed: Embed | None = self._embed if self._model else None
        return Retriever(embed, uses=uses, vectors=self._vectors, refresh=self.count)

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

    # -- what was of use -----------------------------------------------------------------------------------------------

    def ended(self, run_id: str) -> None:
        """Have the calls of a run that ended for good counted before the next search."""
        if self._uncounted is not None:
            self._uncounted.append(run_id)

    async def count(self) -> None:
        """Count the calls of runs that ended since the last time; at first those of the newest runs there are."""
        if self._uncounted is None:
            states = [
                one for one in await self._store.run_states() if one.status in FINAL and not one.id.startswith(PART)
            ]
            newest = sorted(states, key=lambda one: one.created)[-RUNS_COUNTED:]
            self._uncounted = [one.id for one in newest]
        runs, self._uncounted = self._uncounted, []
        for one in await calls_in(self._store, dict.fromkeys(runs)):
            self._uses[one.kind][one.name] += one.ok


class KeptVectors(MutableMapping[str, Sequence[float]]):
    """Vectors of one model by the SHA-256 of their texts, in a SQLite file that several processes may have open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Sequence[float]] | None = None
        self._file: sqlite3.Connection | None = None

    def __getitem__(self, digest: str) -> Sequence[float]:
        return self._read()[digest]

    def __setitem__(self, digest: str, vector: Sequence[float]) -> None:
        numbers = array("f", vector)
        self._read()[digest] = numbers
        if self._file is not None:
            self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (digest, numbers.tobytes()))

    def __delitem__(self, digest: str) -> None:
        del self._read()[digest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> dict[str, Sequence[float]]:
        if self._known is None:
            self._known = {}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(self._path, isolation_level=None, timeout=30, check_same_thread=False)
            try:
                self._file.execute("PRAGMA synchronous = OFF")  # what is lost can be embedded again
                self._file.execute("CREATE TABLE IF NOT EXISTS vectors (digest TEXT PRIMARY KEY, vector BLOB NOT NULL)")
                for digest, data in self._file.execute("SELECT digest, vector FROM vectors"):
                    self._known[digest] = array("f", data)
            except sqlite3.DatabaseError:  # a damaged file keeps nothing, and nobody from searching
                self._file.close()
                self._file = None
        return self._known
