"""Messages to and from a model, in our own types: no provider's type leaks past models/."""

from __future__ import annotations

import operator
from functools import cached_property
from itertools import compress, count
from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from agentorchestra.core.budget import Usage
from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust, text_of
from agentorchestra.core.frozen import Frozen, Hashed
from agentorchestra.core.ids import canonical_json, sha256_json, sha256_text
from agentorchestra.core.settings import ReasoningEffort

MessageRole = Literal["system", "user", "assistant", "tool"]

_FORMER_MAX_TOKENS = 4_096
_MARK_CHARS = 100  # the marks around a block from outside (models/render.py)


class ToolCall(BaseModel, frozen=True):
    """A call a model asked for."""

    id: str  # the provider's, or one derived from the key
    name: str  # as the model wrote it
    arguments: dict[str, JsonValue] | str  # the raw text when it is not a JSON object


class Thought(BaseModel, frozen=True):
    """A piece of a model's thinking that its provider wants back, unchanged, with the calls that followed from it."""

    text: str = ""  # "" where the provider does not show it
    signature: str  # by which the provider knows it again
    id: str | None = None  # the provider's
    provider: str  # whose it is; no other gets it


class Message(Hashed):
    """One message of a conversation.

    A `tool` message answers the call `tool_call_id`; an `assistant` message may hold calls, and thoughts before them.
    """

    role: MessageRole
    content: tuple[Block, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    thoughts: tuple[Thought, ...] = ()

    @cached_property
    def chars(self) -> int:
        """Characters of text, names, arguments and the marks around content, from which tokens are estimated.

        Scripts outside ASCII have up to a token per character: their UTF-8 bytes keep the estimate an upper bound.
        """
        chars = len(self.text) + sum(len(call.name) + len(str(call.arguments)) for call in self.tool_calls)
        chars += sum(len(thinking.text) for thinking in self.thoughts)
        for block in self.content:
            if block.source is not None:
                chars += _MARK_CHARS + len(block.source.ref)
            if isinstance(block, TextBlock) and not block.text.isascii():
                chars += len(block.text.encode("utf-8", "surrogatepass")) - len(block.text)
        return chars

    @cached_property
    def media(self) -> tuple[MediaBlock, ...]:
        """The media it holds; cached, the message is immutable."""
        return tuple(block for block in self.content if isinstance(block, MediaBlock))

    @property
    def text(self) -> str:
        """The message's text, media as a line that names them."""
        return text_of(self.content)


def system(text: str) -> Message:
    """Return a system message from the framework's prompts."""
    return Message(role="system", content=(TextBlock(text=text, source=Source(kind="prompt"), trust=Trust.SYSTEM),))


def user(text: str, *, trust: Trust = Trust.USER, source: Source | None = None) -> Message:
    return Message(role="user", content=(TextBlock(text=text, source=source or Source(kind="task"), trust=trust),))


class ToolSchema(Frozen):
    """A tool as a model sees it: name, description and a JSON schema of its arguments.

    Attributes:
        trust: of these words. `untrusted` where they come from outside (another server, a file): whoever is offered the
            tool has read them, as it reads a page.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    trust: Trust = Trust.SYSTEM

    @cached_property
    def digest(self) -> str:
        """Content hash; cached, the schema is immutable."""
        return sha256_json([self.name, self.description, self.parameters])

    @cached_property
    def chars(self) -> int:
        """Characters that it takes in a prompt; cached, the schema is immutable."""
        return len(self.name) + len(self.description) + len(canonical_json(self.parameters))


class ModelSettings(BaseModel, frozen=True):
    """Parameters of one request."""

    # the longest answer that is wanted; None for the model's own limit. Who executes the request sends less where the
    # window or the budget leaves less room.
    max_tokens: int | None = None
    # room that an answer needs to be of use: where the budget does not afford everything, it is held before others get
    # more than they usually need. 0 for the usual.
    least_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    tool_choice: str = "auto"  # `auto`, `required`, `none`, or the name of the one tool that is to be called
    # `reasoning_effort`, `thinking_tokens`: see core.settings.ModelProfile
    reasoning_effort: ReasoningEffort | None = None
    thinking_tokens: int | None = None
    timeout_s: float = 600.0  # seconds of silence after which it is given up
    stream: bool = True  # whether the answer may come in pieces; `timeout_s` limits the whole of one that does not
    cached: bool = True  # whether the provider is told what of the prompt comes again
    # asks for JSON that fits this schema, in a request without tools: by the provider's own structured output where
    # that leaves the schema's meaning alone, else by its prompt. Whoever asks checks the reply
    # (`tea.calling.structured_output.read_output`): no provider is relied on.
    output_schema: dict[str, Any] | None = None
    output_mode: Literal["auto", "prompted"] = "auto"  # `prompted` forgoes the provider's structured output
    # what happens to media that the model does not take: they are `named` in the text, or they are `required` and the
    # request fails
    media: Literal["named", "required"] = "named"


class ModelRequest(Frozen):
    """A question to a model.

    Attributes:
        model: a profile's name or `provider:model`.
        messages: the conversation, oldest first.
        tools: what the model may call natively; empty for the JSON text format.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    settings: ModelSettings = ModelSettings()

    @cached_property
    def chain(self) -> tuple[str, ...]:
        """Chain hashes: element i identifies the first i+1 messages; the log stores only what is appended."""
        return _chain_hashes((), self.messages)

    def after(self, earlier: ModelRequest | None) -> ModelRequest:
        """Return this request; what it shares with an earlier one of the conversation is not hashed again."""
        if earlier is not None and "chain" not in self.__dict__:
            differs = compress(count(), map(operator.is_not, self.messages, earlier.messages))
            shared = next(differs, min(len(self.messages), len(earlier.messages)))
            self.__dict__["chain"] = _chain_hashes(earlier.chain[:shared], self.messages[shared:])
        return self

    @cached_property
    def digest(self) -> str:
        """Identity of the request for the fingerprint, in time linear in the number of messages."""
        settings = self.settings.model_dump(mode="json", exclude_defaults=True)
        if settings.get("max_tokens") == _FORMER_MAX_TOKENS:
            del settings["max_tokens"]  # the default of earlier versions, which their logs left out
        head = self.chain[-1] if self.chain else ""
        return sha256_json([self.model, head, [tool.digest for tool in self.tools], settings])


def _chain_hashes(front: tuple[str, ...], messages: tuple[Message, ...]) -> tuple[str, ...]:
    """Return the chain hashes of a conversation whose front is hashed already."""
    hashes = list(front)
    head = front[-1] if front else ""
    for message in messages:
        head = sha256_text(head + message.digest)
        hashes.append(head)
    return tuple(hashes)


FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "error", "other"]


class ModelResponse(BaseModel, frozen=True):
    """The answer of a model.

    Attributes:
        text: the visible text.
        thinking: the provider's reasoning text, where it is given.
        thoughts: those that the provider wants back in the next request.
        tool_calls: native calls in the model's order.
        model: the model that answered (a fallback may differ from the one asked).
        usage: tokens by class and cost; the cost is None when the price is unknown.
    """

    text: str = ""
    thinking: str = ""
    thoughts: tuple[Thought, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    model: str = ""
    usage: Usage = Usage()
