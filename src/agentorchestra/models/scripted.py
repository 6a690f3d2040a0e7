"""The scripted model: a test double that answers from a script and fails loudly where the script does not fit."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from pydantic import JsonValue

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import AgentOrchestraError, ScriptError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.policy import PLAN, REVIEW
from agentorchestra.core.settings import ModelProfile, Price
from agentorchestra.models.client import Media, OnDelta, stream_whole
from agentorchestra.models.limits import USUAL
from agentorchestra.models.prices import FREE, estimate_input_tokens, estimate_text_tokens, price_of

Reply = ModelResponse | str | ToolCall | Sequence[ToolCall] | Exception
"""What a step answers: a whole response, a text, calls, or an exception to raise."""

ScriptFunction = Callable[[ModelRequest], Reply | Awaitable[Reply]]
"""Answers from the visible prompt; the only kind of script that many concurrent runs can share."""

_Beside = JsonValue | Callable[[ModelRequest], JsonValue]
"""Answers a request of policy: as JSON, as text, or by the request; None for a model that is not asked."""

Steps = Iterable[Reply | ScriptFunction] | ScriptFunction

_ENDLESS = 1_000  # an iterator that still gives steps after so many is taken to be endless


def call(name: str, /, **arguments: JsonValue) -> ToolCall:
    """Return a call of the tool `name`; its id is filled in by the model that gives it."""
    return ToolCall(id="", name=name, arguments=arguments)


def say(text: str) -> ModelResponse:
    return ModelResponse(text=text)


def decide(
    thinking: str = "", evaluation: str = "", memory: str = "", next_goal: str = "", calls: Iterable[ToolCall] = ()
) -> ModelResponse:
    """Return a decision as an agent gives it: reasoning as a JSON object, and calls.

    Args:
        evaluation: how the previous goal went.
        memory: what to keep in mind.
        next_goal: what comes next.
    """
    fields = {"thinking": thinking, "evaluation_previous_goal": evaluation, "memory": memory, "next_goal": next_goal}
    return ModelResponse(text=canonical_json(fields), tool_calls=tuple(calls))


class ScriptedModel:
    """A `ModelClient` that answers from a script.

    A request without a step left raises ScriptError, so does `finish()` while steps are left: a test that passes has
    used its script exactly. Where `native_tools` is off, calls are written into the JSON text, so the same script
    serves both formats.

    Args:
        steps: replies in the order in which requests arrive, as a list or an iterator; or a function of the request.
            An item of a list may be such a function too.
        name: what it is asked for by.
        native_tools: whether calls are given natively.
        price: its price; None for an unknown one.
        latency_s: seconds each answer takes.
        profile: replaces the profile made of name, `native_tools` and price.
        plan: what it says when it is asked what the user's words call for (docs/security.md, "The plan before the
            reading"): the reply as JSON, as text, or a function of the request. Without one it is not asked.
        review: what it says when it takes a second look at a call (docs/security.md, "The second look"), as `plan`.

    Attributes:
        requests: the requests seen, in the order in which they arrived.
        plan_requests: those for a plan; they take no step of the script.
        review_requests: those for a second look; they take none either.
    """

    def __init__(
        self,
        steps: Steps,
        *,
        name: str = "scripted",
        native_tools: bool = True,
        price: Price | None = FREE,
        latency_s: float = 0.0,
        profile: ModelProfile | None = None,
        plan: _Beside = None,
        review: _Beside = None,
    ) -> None:
        self.name = name
        self.states_plans, self.reviews_calls = plan is not None, review is not None
        self.plan_requests: list[ModelRequest] = []
        self.review_requests: list[ModelRequest] = []
        self._beside: dict[str | None, tuple[_Beside, list[ModelRequest]]] = {
            PLAN: (plan, self.plan_requests),
            REVIEW: (review, self.review_requests),
        }
        self.native_tools = native_tools
        self.profile = profile or ModelProfile(model=name, tools=native_tools, price=price)
        self.latency_s = latency_s
        self.requests: list[ModelRequest] = []
        self._function: ScriptFunction | None = None
        self._list: deque[Reply | ScriptFunction] | None = None
        self._iterator: Iterator[Reply | ScriptFunction] | None = None
        if callable(steps):
            self._function = steps
        elif isinstance(steps, list | tuple):
            self._list = deque(steps)
        else:
            self._iterator = iter(steps)

    async def request(
        self, request: ModelRequest, *, media: Media | None = None, on_delta: OnDelta | None = None
    ) -> ModelResponse:
        """Answer with the next step of the script, or raise ScriptError if there is none, or no reply."""
        purpose = (request.settings.output_schema or {}).get("title")
        if purpose in self._beside:
            beside, requests = self._beside[purpose]
            requests.append(request)
            return self._finished(ModelResponse(text=self._statement(purpose, beside, request)), request)
        self.requests.append(request)
        # Taken before anything is awaited: steps go out in the order in which requests arrive.
        step = self._next(request)
        if self.latency_s > 0:
            await asyncio.sleep(self.latency_s)
        reply = await self._answer(step, request) if callable(step) else step
        response = self._finished(_response(reply, request), request)
        if on_delta is not None:
            stream_whole(response, on_delta)
        return response

    def price(self, usage: Usage) -> float | None:
        """Return US dollars by the price it was given: 0 by default, None without a price."""
        return None if self.profile.price is None else price_of(self.profile, usage)

    def finish(self) -> None:
        """Complain about steps that were never asked for.

        An iterator is drained to count them; one that gives more than 1,000 is taken to be endless and is in order.

        Raises:
            ScriptError: with their number.
        """
        left = len(self._list) if self._list is not None else 0
        if self._iterator is not None:
            left = sum(1 for _ in zip(range(_ENDLESS), self._iterator, strict=False))
            if left == _ENDLESS:
                return
        if left:
            steps = "step was" if left == 1 else "steps were"
            raise ScriptError(
                f"the scripted model {self.name!r} was asked {len(self.requests)} times and {left} {steps} not used; "
                "shorten the script, or find out why the run ended early"
            )

    @property
    def spent(self) -> bool:
        """True once `finish` has nothing to complain of; an iterator may have more to give."""
        return self._iterator is None and not self._list

    async def aclose(self) -> None:
        """Do nothing: no connection is held."""

    def _next(self, request: ModelRequest) -> Reply | ScriptFunction:
        if self._function is not None:
            return self._function
        if self._list is not None:
            if self._list:
                return self._list.popleft()
        else:
            assert self._iterator is not None
            for step in self._iterator:
                return step
        raise ScriptError(
            f"the scripted model {self.name!r} has no step left for request {len(self.requests)} "
            f"({_tail(request)}); add a step to the script, or find out why one more was asked for"
        )

    async def _answer(self, function: ScriptFunction, request: ModelRequest) -> Reply:
        try:
            reply = function(request)
            return await reply if inspect.isawaitable(reply) else reply
        except AgentOrchestraError:
            raise
        except Exception as exc:
            # The door would show a tool's sort of failure to the loop; a broken script must end the test.
            raise ScriptError(
                f"the script of {self.name!r} failed on request {len(self.requests)} ({_tail(request)}): "
                f"{type(exc).__name__}: {exc}"
            ) from exc

    def _statement(self, purpose: str | None, beside: _Beside, request: ModelRequest) -> str:
        """Return the plan or the review as text; raise ScriptError for one that is neither JSON nor text."""
        try:
            reply = beside(request) if callable(beside) else beside
            return reply if isinstance(reply, str) else canonical_json(reply)
        except AgentOrchestraError:
            raise
        except Exception as exc:
            raise ScriptError(
                f"the scripted model {self.name!r} has no usable {purpose} ({type(exc).__name__}: {exc}); "
                "give JSON, a text, or a function of the request that returns either"
            ) from exc

    def _finished(self, response: ModelResponse, request: ModelRequest) -> ModelResponse:
        calls = tuple(
            call if call.id else call.model_copy(update={"id": f"call_{request.digest[:12]}_{index}"})
            for index, call in enumerate(response.tool_calls)
        )
        text = response.text
        if calls and not self.native_tools:
            text, calls = _as_text(response), ()
        reason = response.finish_reason
        if "finish_reason" not in response.model_fields_set:
            reason = "tool_calls" if calls else "stop"
        usage = response.usage
        if "usage" not in response.model_fields_set:
            output = text + response.thinking + "".join(call.name + str(call.arguments) for call in calls)
            usage = Usage(
                requests=1,
                input_tokens=estimate_input_tokens(request),
                output_tokens=min(estimate_text_tokens(output), request.settings.max_tokens or USUAL),
            )
        elif not usage.requests:
            usage = usage.model_copy(update={"requests": 1})
        return response.model_copy(
            update={
                "text": text,
                "tool_calls": calls,
                "finish_reason": reason,
                "model": response.model or self.name,
                "usage": usage,
            }
        )


def response_of(reply: object) -> ModelResponse | None:
    """Return the response that a text, a call or several stand for; None for anything else."""
    if isinstance(reply, ModelResponse):
        return reply
    if isinstance(reply, str):
        return ModelResponse(text=reply)
    if isinstance(reply, ToolCall):
        return ModelResponse(tool_calls=(reply,))
    if isinstance(reply, list | tuple) and reply and all(isinstance(call, ToolCall) for call in reply):
        return ModelResponse(tool_calls=tuple(reply))
    return None


def _response(reply: Reply, request: ModelRequest) -> ModelResponse:
    if isinstance(reply, Exception):
        raise reply
    if (response := response_of(reply)) is not None:
        return response
    raise ScriptError(
        f"the script answered {reply!r} to a request ({_tail(request)}); give a ModelResponse, a text, a ToolCall, "
        "a list of ToolCall, or an exception"
    )


def _as_text(response: ModelResponse) -> str:
    try:
        fields = json.loads(response.text) if response.text else {}
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        fields = {"thinking": response.text}
    fields["tool"] = [{"name": call.name, "args": call.arguments} for call in response.tool_calls]
    return canonical_json(fields)


def _tail(request: ModelRequest) -> str:
    tools = ", ".join(tool.name for tool in request.tools) or "none"
    if not request.messages:
        return f"no messages; tools offered: {tools}"
    last = request.messages[-1]
    text = " ".join(last.text.split())
    if len(text) > 200:
        text = f"{text[:120]} ... {text[-70:]}"
    return f"last message, {last.role}: {text!r}; tools offered: {tools}"
