"""What retrieval shares in a workspace: the embedder and the vectors that are kept."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import ToolError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.protocols import Store
from agentorchestra.core.query import LogQuery
from agentorchestra.core.vectors import pack, unpack
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.store.pages import selected_events
from agentorchestra.tea.retrieval.discovery import Finder
from agentorchestra.tea.retrieval.retriever import Embed, Retriever

Perform = Callable[[Callable[[Any], Effect]], Awaitable[Outcome]]
"""Lets an effect through the door outside of a run: `DirectCalls.perform`."""

CALL_KINDS = {EffectKind.INVOKE_TOOL: "tool", EffectKind.INVOKE_ACTION: "environment", EffectKind.INVOKE_AGENT: "agent"}
"""The kinds of component whose calls are effects."""


class Called(NamedTuple):
    kind: str
    name: str
    run: str
    ok: bool


async def calls_in(store: Store, runs: Iterable[str]) -> list[Called]:
    calls = []
    for run in runs:
        query = LogQuery(runs=(run,), types=("started", "completed"))
        events = [event async for event in selected_events(store, query)]
        for record in Ledger.of(events).records.values():
            kind = CALL_KINDS.get(record.kind) if record.effect else None
            if kind is not None and record.outcome is not None:
                name = str(record.effect.get("component", "")).rpartition("@")[0]
                calls.append(Called(kind, name, run, record.outcome.ok))
    return calls


class ComponentSearch:
    """Retrievers and finders of one open workspace; `folder` keeps vectors between processes, None in memory only."""

    def __init__(self, store: Store, perform: Perform, *, model: str, folder: Path | None) -> None:
        self._store = store
        self._perform = perform
        self._model = model
        path = folder / f"{sha256_text(model)[:16]}.jsonl" if model and folder is not None else None
        self._vectors: MutableMapping[str, Sequence[float]] = KeptVectors(path) if path is not None else {}
        self.finder = Finder(self.retriever(), model=model)

    def retriever(self) -> Retriever:
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
    """Vectors of one model by the SHA-256 of their texts, in a file that is only added to.

    A line is JSON: the SHA-256 and the vector, packed and in base64. Vectors of another length begin the file anew.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, array[float]] | None = None

    def __getitem__(self, digest: str) -> Sequence[float]:
        return self._read()[digest]

    def __setitem__(self, digest: str, vector: Sequence[float]) -> None:
        vectors = self._read()
        other = any(len(old) != len(vector) for old in vectors.values())
        if other:
            vectors.clear()
        vectors[digest] = array("f", vector)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps([digest, base64.b64encode(pack([vector])).decode()])
        # One write for each vector, at the end of the file: several processes may do so. The new line comes first: it
        # ends what a process that was killed left there.
        with self._path.open("w" if other else "a", encoding="ascii") as file:
            file.write(f"\n{line}")

    def __delitem__(self, digest: str) -> None:
        del self._read()[digest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> dict[str, array[float]]:
        if self._known is None:
            self._known = {}
            lines: list[str] = []
            with suppress(OSError, UnicodeDecodeError):
                lines = self._path.read_text(encoding="ascii").splitlines()
            for line in lines:
                with suppress(ValueError, TypeError):  # what is no whole line
                    digest, encoded = json.loads(line)
                    data = base64.b64decode(encoded)
                    self._known[digest] = array("f", unpack(data, len(data) // 4)[0])
        return self._known
