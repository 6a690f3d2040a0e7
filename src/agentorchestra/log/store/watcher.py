"""Tells those who follow runs that there is more in the log: one thread and one connection, however many they are.

follow ─> followed runs ─> thread: asks a few times a second whether there are changes ─> tell
"""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, select

from agentorchestra.log.store.database import AT_ONCE, Database
from agentorchestra.log.store.followers import Followers
from agentorchestra.log.store.patience import Patience
from agentorchestra.log.store.schema import runs

_NEXT = select(runs.c.id, runs.c.next_seq)

_AGAIN_S = 1.0  # time until a connection is tried again that failed, though the database is not away


class Watcher(Database):
    """`Store.follow` over a database.

    Attributes:
        look_s: seconds between looks at the log of followed runs.
    """

    look_s: float

    def __init__(self, place: str, *, workspace: str, file: str, option: str) -> None:
        super().__init__(place, workspace=workspace, file=file, option=option)
        self._followers = Followers()
        self._watching: threading.Thread | None = None
        # ends a wait of the thread; None where there is none, or it is about to end
        self._bell: threading.Event | None = None

    @abstractmethod
    def _changes(self, connection: Connection) -> Callable[[], bool]:
        """Return what says whether anything may have been committed since it was asked last.

        It asks through a connection that nobody else uses.
        """

    @contextmanager
    def follow(self, run: str) -> Iterator[asyncio.Event]:
        try:
            with self._followers.following(run) as event:
                self._ring(start=True)
                yield event
        finally:
            self._ring()

    def _ring(self, *, start: bool = False) -> None:
        """Let the thread see who follows now."""
        with self._lock:
            if start:
                self._check_open()
            if self._bell is not None:
                self._bell.set()
            elif start:
                self._bell, before = threading.Event(), self._watching
                self._watching = threading.Thread(
                    target=self._watch, args=(self._bell, before), name="store-watcher", daemon=True
                )
                self._watching.start()

    def _close(self) -> None:
        self._ring()
        if self._watching is not None:
            self._watching.join()
        self._followers.tell(self._followers.runs)  # who reads on is told that the store is closed
        super()._close()

    def _watch(self, bell: threading.Event, before: threading.Thread | None) -> None:
        """Tell followers of news until there are none."""
        if before is not None:
            before.join()
        patience = Patience(self.retry_s)
        while self._run_ids(bell):
            try:
                with self._looking() as news:
                    while run_ids := self._run_ids(bell):
                        self._followers.tell(news(run_ids))
                        patience = Patience(self.retry_s)
                        bell.wait(self.look_s)
                        bell.clear()
            except Exception as exc:
                if not (self._is_lost(exc) and patience.wait(lambda: None)):
                    self._followers.tell(self._followers.runs)  # they read, and meet the error themselves
                    bell.wait(_AGAIN_S)

    def _run_ids(self, bell: threading.Event) -> frozenset[str]:
        """Return the runs that are followed; none, and never again, where the thread of this bell has to end."""
        with self._lock:
            if self._bell is not bell:
                return frozenset()
            run_ids = self._followers.runs if self._state == "open" else frozenset()
            if not run_ids:
                self._bell = None
            return run_ids

    @contextmanager
    def _looking(self) -> Iterator[Callable[[frozenset[str]], Collection[str]]]:
        """Give what returns the runs of these that have news."""
        assert self._read_engine is not None
        with self._read_engine.connect() as connection:
            try:
                changed, seen = self._changes(connection), dict[str, int]()

                def news(run_ids: frozenset[str]) -> Collection[str]:
                    return _news(connection, run_ids, seen) if changed() or run_ids != seen.keys() else ()

                yield news
            finally:
                connection.invalidate()  # of another thread than those that its pool serves


def _news(connection: Connection, run_ids: frozenset[str], seen: dict[str, int]) -> set[str]:
    """Return the runs that have another next sequence than in `seen`, which is brought up to date."""
    ids, seqs = sorted(run_ids), dict.fromkeys(run_ids, 0)  # 0: a run that was deleted
    for start in range(0, len(ids), AT_ONCE):
        part = ids[start : start + AT_ONCE]
        seqs.update((row.id, row.next_seq) for row in connection.execute(_NEXT.where(runs.c.id.in_(part))))
    news = {run for run, next_seq in seqs.items() if seen.get(run) != next_seq}
    seen.clear()
    seen.update(seqs)
    return news
