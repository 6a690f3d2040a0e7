"""A request as one model can take it: without the media, tools and parameters that it, or its profile, refuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import chain

from agentorchestra.core.content import MediaBlock
from agentorchestra.core.errors import ModelError, ModelMediaError, ModelSchemaError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.models.client import ModelClient
from agentorchestra.models.media import has_media, kind_of, without_media

NEEDED = "done"
"""The tool that is never left out: without it an agent with native tools cannot finish."""

Note = Callable[[str], None]
"""Takes a line for the log."""


class Fit:
    """What is known, in one run, of what its models refuse."""

    def __init__(self) -> None:
        self._tools: defaultdict[int, set[str]] = defaultdict(set)  # digests, by client
        self._blind: defaultdict[int, set[str]] = defaultdict(set)  # kinds of media, by client
        self._prompted: set[int] = set()  # clients that take no schema for their output
        self._said: set[str] = set()

    def once(self, message: str, note: Note) -> None:
        """Say something once in the run."""
        if message not in self._said:
            self._said.add(message)
            note(message)

    def fitted(
        self, request: ModelRequest, client: ModelClient, note: Note, *, stands_in: bool = False
    ) -> ModelRequest:
        """The request for a client.

        Args:
            request: what is asked.
            client: who is asked.
            note: hears of media that are not shown.
            stands_in: it is a fallback: its own profile bounds the answer and the time.
        """
        if any(map(has_media, request.messages)):
            request = self._with_media_taken(request, client, note)
        refused = self._tools.get(id(client))
        if refused:
            tools = tuple(tool for tool in request.tools if tool.digest not in refused)
            request = request.model_copy(update={"tools": tools})
        changes: dict[str, object] = {}
        if id(client) in self._prompted and request.settings.output_schema is not None:
            changes["output_mode"] = "prompted"
        if stands_in:
            most = min(request.settings.max_tokens, client.profile.max_tokens)
            changes |= {"max_tokens": most, "timeout_s": client.profile.timeout_s}
        if changes:
            request = request.model_copy(update={"settings": request.settings.model_copy(update=changes)})
        return request

    def _with_media_taken(self, request: ModelRequest, client: ModelClient, note: Note) -> ModelRequest:
        takes: Callable[[str], bool] = getattr(client, "takes", lambda media_type: True)
        blind = self._blind[id(client)]

        def left_out(block: MediaBlock) -> bool:
            return kind_of(block.media_type) in blind or not takes(block.media_type)

        out = [*filter(left_out, chain.from_iterable(map(has_media, request.messages)))]
        if out and request.settings.media == "required":
            types = ", ".join(sorted({block.media_type for block in out}))
            kinds = tuple(sorted({kind_of(block.media_type) for block in out}))
            raise ModelMediaError(f"{client.name} does not take {types}", kinds=kinds)
        for block in out:
            self.once(f"{client.name} does not take {block.media_type}: it is named in the text, not shown", note)
        return without_media(request, left_out)

    def mended(self, asked: ModelRequest, client: ModelClient, error: ModelError) -> str | None:
        """What will be left out when the client is asked again after an error; None where that would change nothing.

        Args:
            asked: the request it refused. Others may have been refused at the same time.
            client: who refused.
            error: what it said.
        """
        if isinstance(error, ModelMediaError):
            held = {kind_of(block.media_type) for block in chain.from_iterable(map(has_media, asked.messages))}
            if held.isdisjoint(error.kinds):
                return None
            self._blind[id(client)].update(error.kinds)
            if asked.settings.media == "required":
                error.elsewhere = True  # a fallback may take them
                return None
            return f"{client.name} is asked again without what it does not take: {error}"
        if not isinstance(error, ModelSchemaError):
            return None
        if error.tools:
            blamed = {tool.digest for tool in asked.tools if tool.name in error.tools}
            if not blamed or NEEDED in error.tools:
                return None
            self._tools[id(client)] |= blamed
            return f"the request goes without {', '.join(error.tools)}: {error}"
        if asked.settings.output_schema is None or asked.settings.output_mode == "prompted":
            return None
        self._prompted.add(id(client))
        return f"{client.name} takes no schema for its output; it is asked for JSON by the prompt"


__all__ = ["NEEDED", "Fit", "Note"]
