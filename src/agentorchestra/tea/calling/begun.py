"""A coroutine that has begun, to be awaited from where it stands."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Begun(Generic[T]):
    """The rest of a coroutine whose first step was made by hand: `waits_for = coroutine.send(None)`.

    So what gives its value at once never pays for what is needed to stop it. Await it in the same task.

    Args:
        coroutine: suspended at its first await.
        waits_for: what that gave.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        """Go on."""
        waits_for, coroutine = self._waits_for, self._coroutine
        try:
            while True:
                try:
                    sent = yield waits_for
                except GeneratorExit:
                    coroutine.close()
                    raise
                except BaseException as exc:  # a cancellation, or a failure of what it waits for: its to answer
                    waits_for = coroutine.throw(exc)
                else:
                    waits_for = coroutine.send(sent)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]


__all__ = ["Begun"]
