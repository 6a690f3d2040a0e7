"""Tells those who follow runs that there is more in the log: one thread and one connection, however many they are.

follow ─> followed runs ─> thread: an ear hears of appends (PostgreSQL), or asks for changes (SQLite) ─> tell
"""

from __future__ import annotations

import asyncio
import select as system
import socket
import threading
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from sqlalchemy import Connection, select

from agentorchestra.log.store.database import AT_ONCE, Database
from agentorchestra.log.store.followers import Followers
from agentorchestra.log.store.patience import Patience
from agentorchestra.log.store.schema import runs

_NEXT = select(runs.c.id, runs.c.next_seq)

_AGAIN_S = 1.0  # time until a connection is tried again that failed, though the database is not away


class Bell:
    """Ends the wait of a thread; it can wait for a connection at the same time."""

    def __init__(self) -> None:
        self._heard, self._rung = socket.socketpair()
        self._heard.setblocking(False)
        self._rung.setblocking(False)

    def ring(self) -> None:
        """End the wait, or the next one; from any thread."""
        with suppress(BlockingIOError):  # it holds more rings than anybody needs
            self._rung.send(b"\0")

    def wait(self, seconds: float, *descriptors: int) -> None:
        """Wait for a ring, or until one of the descriptors can be read, at most so long."""
        poll = system.poll()
        for descriptor in (self._heard.fileno(), *descriptors):
            poll.register(descriptor, system.POLLIN)
        poll.poll(seconds * 1000)
        with suppress(BlockingIOError):
            self._heard.recv(4096)

    def close(self) -> None:
        self._heard.close()
        self._rung.close()


class Ear(Protocol):
    """Hears of appends through a connection of its own."""

    def hear(self, followed: frozenset[str]) -> set[str] | None:
        """Wait for news of these runs, or for the bell; return the runs that have some, None if the log has to tell.

        It does not wait where the runs are others than the last time. What is committed after the last None for these
        runs is not missed.
        """


class Asking:
    """The ear where nobody calls: asks again and again whether there are any changes."""

    def __init__(self, bell: Bell, changed: Callable[[], bool], every_s: float) -> None:
        self._bell, self._changed, self._every_s = bell, changed, every_s
        self._followed: frozenset[str] = frozenset()

    def hear(self, followed: frozenset[str]) -> set[str] | None:
        if followed == self._followed:
            self._bell.wait(self._every_s)
        if not self._changed() and followed == self._followed:
            return set()
        self._followed = followed
        return None


class Watcher(Database):
    """`Store.follow` over a database."""

    def __init__(self, place: str, *, workspace: str, file: str, option: str) -> None:
        super().__init__(place, workspace=workspace, file=file, option=option)
        self._followers = Followers()
        self._watching: threading.Thread | None = None
        self._bell: Bell | None = None  # of the thread; None where there is none, or it is about to end

    @abstractmethod
    def _ear(self, connection: Connection, bell: Bell) -> Ear:
        """Return what hears of appends through a connection that nobody else uses."""

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
                self._bell.ring()
            elif start:
                self._bell, before = Bell(), self._watching
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

    def _watch(self, bell: Bell, before: threading.Thread | None) -> None:
        """Tell followers of news until there are none."""
        if before is not None:
            before.join()
        patience = Patience(self.retry_s)
        while self._followed(bell):
            try:
                with self._listening(bell) as hear:
                    while followed := self._followed(bell):
                        self._followers.tell(hear(followed))
                        patience = Patience(self.retry_s)
            except Exception as exc:
                if not (self._is_lost(exc) and patience.wait(lambda: None)):
                    self._followers.tell(self._followers.runs)  # they read, and meet the error themselves
                    bell.wait(_AGAIN_S)
        bell.close()

    def _followed(self, bell: Bell) -> frozenset[str]:
        """Return the runs that are followed; none, and never again, where the thread of this bell has to end."""
        with self._lock:
            if self._bell is not bell:
                return frozenset()
            followed = self._followers.runs if self._state == "open" else frozenset()
            if not followed:
                self._bell = None
            return followed

    @contextmanager
    def _listening(self, bell: Bell) -> Iterator[Callable[[frozenset[str]], Collection[str]]]:
        """Give what waits for news of runs and returns those that have some."""
        assert self._read_engine is not None
        with self._read_engine.connect() as connection:
            try:
                ear, seen = self._ear(connection, bell), dict[str, int]()

                def hear(followed: frozenset[str]) -> Collection[str]:
                    heard = ear.hear(followed)
                    return _grown(connection, followed, seen) if heard is None else heard

                yield hear
            finally:
                connection.invalidate()  # what it listens to ends with it


def _grown(connection: Connection, followed: frozenset[str], seen: dict[str, int]) -> set[str]:
    """Return the runs that have another next sequence than in `seen`, which is brought up to date."""
    named, found = sorted(followed), dict.fromkeys(followed, 0)  # 0: a run that was deleted
    for start in range(0, len(named), AT_ONCE):
        part = named[start : start + AT_ONCE]
        found.update((row.id, row.next_seq) for row in connection.execute(_NEXT.where(runs.c.id.in_(part))))
    grown = {run for run, next_seq in found.items() if seen.get(run) != next_seq}
    seen.clear()
    seen.update(found)
    return grown
