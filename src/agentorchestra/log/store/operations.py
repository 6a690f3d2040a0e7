"""What waits in the writer's queue of a database, and what is drawn for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError, OperationalError

from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store.commits import Landing
from agentorchestra.log.store.rows import Row

T = TypeVar("T")


class Operation(Generic[T]):
    """What waits in the writer's queue.

    Attributes:
        run: the run it writes to, if it is one's.
        new: the events it adds.
        large: those whose body is in a file, once staged.
    """

    def __init__(self, run: str | None, new: tuple[Row, ...] = ()) -> None:
        self.run = run
        self.new = new
        self.large: tuple[Row, ...] = ()
        self.future: Landing[T] = Landing()


class Errors:
    """The driver's errors and SQLAlchemy's, by what they mean.

    Attributes:
        operational: errors of the disk, the lock or the connection: no use in trying again with less.
        integrity: a row does not fit.
    """

    def __init__(self, engine: Engine) -> None:
        driver = engine.dialect.loaded_dbapi
        self.operational: tuple[type[Exception], ...] = (OperationalError, driver.OperationalError)
        self.integrity: tuple[type[Exception], ...] = (IntegrityError, driver.IntegrityError)


class Append(Operation[tuple[int, ...]]):
    """Events of one run, written together."""

    def __init__(self, run: str, epoch: int | None, new: tuple[Row, ...], status: RunStatus | None) -> None:
        super().__init__(run, new)
        self.id = run
        self.epoch = epoch
        self.status = status


class Call(Operation[T]):
    """Any other write. It checks before it writes: when it raises an AgentOrchestraError, it has written nothing."""

    def __init__(self, run: str | None, call: Callable[[Connection, Call[T]], T], new: tuple[Row, ...] = ()) -> None:
        super().__init__(run, new)
        self.call = call


@dataclass
class Draw:
    """Neighbouring appends of one run under one epoch, which draw their sequences together.

    Attributes:
        members: their places in the batch.
        k: how many sequences.
        status: the last one that was set.
        next_seq: the run's next sequence after the draw; None where the epoch does not hold.
    """

    run: str
    epoch: int | None
    members: list[int]
    k: int = 0
    status: str | None = None
    next_seq: int | None = None


class UnansweredError(Exception):
    """The connection was lost while COMMIT was under way: whether it was carried out is to be looked up.

    Attributes:
        token: names the transaction to the database.
        results: what its operations gave.
    """

    def __init__(self, token: str, results: list[Any]) -> None:
        super().__init__(token)
        self.token = token
        self.results = results
