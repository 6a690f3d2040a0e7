"""A worker that starts while its database is away: it waits, like one that runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from agentorchestra.core.errors import StoreRefusedError, StoreUnavailableError
from agentorchestra.log.store.patience import Patience

T = TypeVar("T")

logger = logging.getLogger("agentorchestra.cluster")


async def until_reached(attempt: Callable[[], Awaitable[T]], retry_s: Callable[[], float]) -> T:
    """Return what an attempt gives; try again while the database is away, and say so once.

    Args:
        attempt: to use the database.
        retry_s: how long to wait; asked when the first attempt has failed.

    Raises:
        StoreRefusedError: at once.
        StoreUnavailableError: if the database stays away for so long.
    """
    patience: Patience | None = None
    while True:
        try:
            answer = await attempt()
        except StoreRefusedError:
            raise
        except StoreUnavailableError as exc:
            patience = patience or Patience(retry_s())
            say = partial(logger.warning, "%s; trying again for %g s", exc, patience.limit_s)
            if not await asyncio.to_thread(patience.wait, say):
                raise
        else:
            if patience is not None:
                logger.warning("the database answers")
            return answer


__all__ = ["until_reached"]
