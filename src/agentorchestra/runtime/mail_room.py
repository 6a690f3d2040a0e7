"""The mail room: recorded sends by sequence, who waits, and noticing when all wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import SuspendedError
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.mail import TOLD, Mail, Society

if TYPE_CHECKING:
    from agentorchestra.core.events import Told
    from agentorchestra.log.ledger import Record


IN_PROCESS_S = 5.0  # a run in which everybody waits ends its job, unless one of them is to go on within this time


def in_utc(time: datetime) -> str:
    try:
        return time.astimezone(UTC).isoformat()
    except OverflowError:  # the last hours of the year 9999, or the first of the year 1
        return (datetime.max if time.year > 1 else datetime.min).replace(tzinfo=UTC).isoformat()


@dataclass
class Waiting:
    key: str  # of the effect that waits
    branch: str  # where it waits
    actor: str = ""  # whose mail, "" for a timer alone
    after: int = 0  # mail above this sequence
    due: datetime | None = None  # when it stops waiting, None for never
    seconds: float | None = None  # until then
    outside: int | None = None  # also mail from outside, above this sequence; None for none


@dataclass
class _Waiter:
    wait: Waiting
    future: asyncio.Future[str]
    timer: asyncio.TimerHandle | None = None

    def seconds(self, now: float) -> float:
        return float("inf") if self.timer is None else self.timer.when() - now


def _order(branch: str) -> tuple[int, list[tuple[int, str]]]:
    parts = [part.partition(".") for part in branch.strip("/").split("/") if part]
    return len(parts), [(int(number) if number.isdigit() else 0, name) for number, _, name in parts]


def _suspension(waiting: Waiting) -> SuspendedError:
    if waiting.outside is not None and waiting.due is None:
        return SuspendedError(f"{waiting.actor} waits for mail from outside", waiting_for=(waiting.key,))
    if waiting.due is None:
        return SuspendedError(f"{waiting.actor} waits for mail, and another agent for a human or a time")
    sentence = f"waits until {waiting.due.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return SuspendedError(sentence, waiting_for=(waiting.key,), until=waiting.due)


class MailRoom:
    """Mail and waiting of one run.

    `tokens` counts the branches that can still act: a branch that waits (for mail, a timer or a join) gives its token
    up, whoever wakes it hands it back in the same breath. No token left means that all wait.

    Senders take `in_order` as soon as their message is queued for the log, until it is durable: messages are delivered
    in the order of their sequences, and a reader that goes by the last one that it read misses none.
    """

    def __init__(self) -> None:
        self.messages: list[Mail] = []
        self.society = Society()
        self.in_order = asyncio.Lock()  # lets those who wait in as they came
        self.tokens = 1
        self.suspended = 0
        self._failed: BaseException | None = None
        self._waiters: list[_Waiter] = []

    def load(self, key: EffectKey, record: Record) -> None:
        if record.effect.get("kind") == EffectKind.SEND_MESSAGE and record.outcome is not None and record.outcome.ok:
            arguments = record.effect.get("arguments", {})
            if not self.society.take(arguments, key.branch):
                self._insert(key, record.seq, arguments, record.outcome.trust)

    def _insert(self, key: EffectKey, seq: int, arguments: dict[str, object], trust: Trust) -> Mail:
        to = arguments.get("to")
        mail = Mail(
            id=str(key),
            seq=seq,
            sender=str(arguments.get("sender", "")),
            to=tuple(str(name) for name in to) if isinstance(to, list) else (),
            content=str(arguments.get("content", "")),
            thread=str(arguments.get("thread", "")),
            trust=trust,
        )
        self.messages.append(mail)
        self.messages.sort(key=lambda letter: letter.seq)
        return mail

    def deliver(self, key: EffectKey, seq: int, arguments: dict[str, object], trust: Trust) -> None:
        """Put a recorded send into the boxes and wake whoever waits for it."""
        if self.society.take(arguments, key.branch):
            return
        mail = self._insert(key, seq, arguments, trust)
        for waiter in list(self._waiters):
            if waiter.wait.actor in mail.to and mail.seq > waiter.wait.after:
                self._wake(waiter, "mail")

    def deliver_told(self, seq: int, note: Told) -> None:
        """Deliver mail from outside: whoever may tell a run something speaks for its user."""
        mail = Mail(id=f"{TOLD}{seq}", seq=seq, sender=note.by, to=(note.to,), content=note.text, trust=Trust.USER)
        self.messages.append(mail)
        self.messages.sort(key=lambda letter: letter.seq)
        for waiter in list(self._waiters):
            if waiter.wait.actor == note.to and waiter.wait.outside is not None:
                self._wake(waiter, "mail")

    def outside_mails(self, actor: str, after: int) -> list[Mail]:
        """Return the messages from outside to an actor with a sequence above `after`, in order."""
        return [mail for mail in self.messages if mail.seq > after and actor in mail.to and mail.outside]

    def inside_mails(self, actor: str, after: int) -> list[Mail]:
        return [mail for mail in self.messages if mail.seq > after and actor in mail.to and not mail.outside]

    def by_ids(self, ids: list[str]) -> list[Mail]:
        id_set = set(ids)
        return [mail for mail in self.messages if mail.id in id_set]

    def _wake(self, waiter: _Waiter, reason: str) -> None:
        if not waiter.future.done():
            self.tokens += 1
            waiter.future.set_result(reason)
        self._waiters.remove(waiter)

    async def wait(self, waiting: Waiting) -> str:
        """Wait for mail or a time.

        Returns:
            `mail`, `timeout`, `ended` where who leads a society has lost an agent, or `all_waiting` when no branch
            of the run can act any more.

        Raises:
            SuspendedError: when all wait, and one of them for a human, mail from outside, or a time that is not near.
            BaseException: what `fail` was told.
        """
        if self._failed is not None:
            raise self._failed
        if waiting.actor and self.inside_mails(waiting.actor, waiting.after):
            return "mail"
        if waiting.outside is not None and self.outside_mails(waiting.actor, waiting.outside):
            return "mail"
        loop = asyncio.get_running_loop()
        waiter = _Waiter(waiting, loop.create_future())
        self._waiters.append(waiter)
        if waiting.seconds is not None:
            waiter.timer = loop.call_later(waiting.seconds, self._timed_out, waiter)
        self.tokens -= 1
        try:
            self.check()
            reason = await waiter.future
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                self.tokens += 1
            raise
        finally:
            if waiter.timer is not None:
                waiter.timer.cancel()
        if reason == "failed" and self._failed is not None:
            raise self._failed
        if reason == "suspended":
            raise _suspension(waiting)
        return reason

    def fail(self, error: BaseException) -> None:
        """Let nobody wait any more: an agent that nobody joins has met what ends the run."""
        self._failed = error
        for waiter in list(self._waiters):
            self._wake(waiter, "failed")

    def _timed_out(self, waiter: _Waiter) -> None:
        if waiter in self._waiters:
            self._wake(waiter, "timeout")

    def lose(self, actor: str, branch: str, reason: str) -> None:
        """Note that a member of the society, spawned on a branch, works no more, and tell its leader."""
        society = self.society
        if actor not in society.members or branch != society.home:
            return
        society.gone[actor] = reason
        for waiter in list(self._waiters):
            if waiter.wait.actor == society.leader:
                self._wake(waiter, "ended")

    def at_work(self) -> list[str]:
        """Return the members of the society that neither wait nor are lost."""
        idle = {waiter.wait.actor for waiter in self._waiters} | self.society.gone.keys()
        return [name for name in self.society.members if name not in idle]

    def suspend(self) -> None:
        """Let nobody go on waiting in this process: the job ends, a resume waits again."""
        for waiter in list(self._waiters):
            self._wake(waiter, "suspended")

    def check(self) -> None:
        """Stay for a time that is near where nobody can act; else end the job or tell somebody `all_waiting`."""
        if self.tokens > 0 or not self._waiters:
            return
        if all(waiter.wait.actor and waiter.wait.outside is None for waiter in self._waiters):
            if self.suspended:
                self.suspend()
            else:
                # Who leads a society is told; elsewhere the agent nearest to the top.
                leader = self.society.leader
                self._wake(
                    min(
                        self._waiters,
                        key=lambda candidate: (candidate.wait.actor != leader, _order(candidate.wait.branch)),
                    ),
                    "all_waiting",
                )
            return
        now = asyncio.get_running_loop().time()
        if min(waiter.seconds(now) for waiter in self._waiters) > IN_PROCESS_S:
            self.suspend()

    def give_up(self) -> None:
        """Count a branch that stops acting (its chain ended, it joins)."""
        self.tokens -= 1
        self.check()

    def take_up(self, count: int = 1) -> None:
        self.tokens += count
