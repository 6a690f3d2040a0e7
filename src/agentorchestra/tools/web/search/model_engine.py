"""A model that searches the web by itself, as one engine among others: a request through the door like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentorchestra.core.errors import OutputError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SearchEngineSettings
from agentorchestra.tea.calling.structured_output import read_output
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.search.service import results, rows
from agentorchestra.tools.web.search.types import INVENTIVE, EngineError, Query, SearchResult, Traits

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"results": {"type": "array", "items": {"type": "object"}}},
    "required": ["results"],
}


class AskedModel:
    """The engine `model`.

    What it lists may be made up, so its addresses are no received links (docs/security.md): it is not tagged as the
    network, and reading one of them is asked about unless another engine lists it too.
    """

    name = INVENTIVE

    def __init__(self, web: WebClient, settings: SearchEngineSettings, environ: Mapping[str, str]) -> None:
        self._model = settings.model
        self.traits = Traits(
            network=False,
            composite=True,
            timeout_s=settings.timeout_s or 60.0,
            about="a model that searches the web; what it lists may be made up",
        )

    def missing(self) -> str:
        return "" if self._model else "needs the model that searches: set search.engine.model.model"

    async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        outcome = await ctx.ask_model(
            "web_search",
            role="search",
            model=self._model,
            query=query.text,
            limit=query.limit,
            since=query.since.isoformat() if query.since else "",
            until=query.until.isoformat() if query.until else "",
            language=query.language,
            site=query.site,
        )
        if not outcome.ok:
            raise EngineError(f"could not be asked: {outcome.error}")
        try:
            output = read_output(outcome.response.text, _SCHEMA)
        except OutputError:
            raise EngineError("answered something that is no list of results") from None
        return results(rows(output, "results"), ("title", "address", "snippet", "date"), query)
