from __future__ import annotations

from collections.abc import AsyncIterator

from agentorchestra.core.events import Event
from agentorchestra.core.protocols import Store
from agentorchestra.core.query import LogQuery

PAGE = 500  # events of a page, and runs named in one query


async def selected_events(
    store: Store, query: LogQuery, limit: int | None = None, *, verify: bool = False
) -> AsyncIterator[Event]:
    """Yield the events of a query (of any number of runs) in its order; with a limit only the last ones, so many.

    Without a limit never more than a page of them is in memory. With `verify` LogChangedError for a page with an event
    that is not the one that was appended.
    """
    if limit is None:
        for part in _parts(query):
            after: tuple[str, int] | None = None
            while page := await store.query(part, after=after, limit=PAGE, verify=verify):
                for event in page:
                    yield event
                after = (page[-1].run, page[-1].seq)
        return
    last: list[Event] = []
    for part in reversed(list(_parts(query))):
        if len(last) < limit:
            last = await store.query(part, limit=limit - len(last), newest=True, verify=verify) + last
    for event in last:
        yield event


def _parts(query: LogQuery) -> list[LogQuery]:
    if query.runs is None or len(query.runs) <= PAGE:
        return [query]
    runs = sorted(set(query.runs))
    return [query.model_copy(update={"runs": tuple(runs[i : i + PAGE])}) for i in range(0, len(runs), PAGE)]
