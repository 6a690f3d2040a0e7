"""A request as one model can take it: without the media, tools and parameters that it, or its profile, refuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import chain

from agentorchestra.core.content import MediaBlock
from agentorchestra.core.errors import ModelError, ModelMediaError, ModelSchemaError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.models.client import ModelClient
from agentorchestra.models.failures import refused_parameter, refused_room
from agentorchestra.models.limits import answer_tokens
from agentorchestra.models.media import has_media, kind_of, without_media

# Never left out: without it an agent with native tools cannot finish. A request has no marks, so these are names.
FINISHING = frozenset({"done", "complete", "submit", "submit_answer"})

Note = Callable[[str], None]  # takes a line for the log


class RequestAdapter:
    """What is known, in one run, of what its models refuse."""

    def __init__(self) -> None:
        self._tools: defaultdict[int, set[str]] = defaultdict(set)  # digests, by client
        self._blind: defaultdict[int, set[str]] = defaultdict(set)  # kinds of media, by client
        self._prompted: set[int] = set()  # clients that take no schema for their output
        self._without: defaultdict[int, set[str]] = defaultdict(set)  # parameters, by client
        self._longest: dict[int, int] = {}  # tokens of an answer, by client that refused more
        self._said: set[str] = set()

    def once(self, message: str, note: Note) -> None:
        if message not in self._said:
            self._said.add(message)
            note(message)

    def adapt(self, request: ModelRequest, client: ModelClient, note: Note, *, stands_in: bool = False) -> ModelRequest:
        """Return a request within this client's own limits; `note` hears of media that are not shown."""
        if any(map(has_media, request.messages)):
            request = self._with_media_taken(request, client, note)
        digests = self._tools.get(id(client))
        if digests:
            tools = tuple(tool for tool in request.tools if tool.digest not in digests)
            request = request.model_copy(update={"tools": tools})
        refused_parameters = self._without.get(id(client), ())
        changes: dict[str, object] = {name: _WITHOUT[name] for name in refused_parameters}
        if id(client) in self._prompted and request.settings.output_schema is not None:
            changes["output_mode"] = "prompted"
        if stands_in:
            changes["timeout_s"] = client.profile.timeout_s
        room = answer_tokens(request, client.profile, stands_in=stands_in)
        changes["max_tokens"] = min(room, self._longest.get(id(client), room))
        return request.model_copy(update={"settings": request.settings.model_copy(update=changes)})

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

    def relax(self, request: ModelRequest, client: ModelClient, error: ModelError) -> str | None:
        """Leave out what the client refused, and say so; None where asking again would change nothing."""
        if isinstance(error, ModelMediaError):
            kinds = {kind_of(block.media_type) for block in chain.from_iterable(map(has_media, request.messages))}
            if kinds.isdisjoint(error.kinds):
                return None
            self._blind[id(client)].update(error.kinds)
            if request.settings.media == "required":
                error.elsewhere = True  # a fallback may take them
                return None
            return f"{client.name} is asked again without what it does not take: {error}"
        if not isinstance(error, ModelSchemaError):
            return self._with_less(request, client, error)
        if error.tools:
            digests = {tool.digest for tool in request.tools if tool.name in error.tools}
            if not digests or FINISHING & {*error.tools}:
                return None
            self._tools[id(client)] |= digests
            return f"the request goes without {', '.join(error.tools)}: {error}"
        if request.settings.output_schema is None or request.settings.output_mode == "prompted":
            return None
        self._prompted.add(id(client))
        return f"{client.name} takes no schema for its output; it is asked for JSON by the prompt"

    def _with_less(self, request: ModelRequest, client: ModelClient, error: ModelError) -> str | None:
        """Say what is left out after a refusal of a parameter, or of so long an answer; None where it was not that."""
        room = refused_room(error, request.settings.max_tokens or 0)
        if room is not None:
            self._longest[id(client)] = room
            return f"{client.name} does not give so long an answer; it is asked for at most {room} tokens: {error}"
        parameters = [name for name, without in _WITHOUT.items() if getattr(request.settings, name) != without]
        parameter = refused_parameter(error, parameters)
        if parameter is None:
            return None
        self._without[id(client)].add(parameter)
        return f"{client.name} is asked without {parameter}, which it refuses: {error}"


_WITHOUT: dict[str, object] = {
    "reasoning_effort": None,
    "thinking_tokens": None,
    "temperature": None,
    "cached": False,
    "stream": False,
}
"""How a request goes without each parameter that can be left out."""
