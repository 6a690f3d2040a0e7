from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import JsonValue

from agentorchestra.agents.plain_answer import answer_of, open_work, refusal_of
from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Provenance, provenance_of, union
from agentorchestra.core.errors import ModelContextError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, ModelSettings, ToolCall, ToolSchema
from agentorchestra.loop import Decision, Seen, State, descriptions
from agentorchestra.models.prices import estimate_input_tokens
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.argument_repair import harmless, repair, unknown
from agentorchestra.tea.calling.replies import DECISION_FIELDS, READ_WHOLE, ModelReply, read_reply

UNREADABLE = "it was not made, because it has no end or is no JSON; make it again, whole"

MORE_ROOM = 2
"""A reply that was cut has room for so many times as many tokens when it is asked for again, where there are any."""


class Toolset(Protocol):
    """The tools of an agent, as schemas for the model and as effects for the door."""

    def schemas(self, open_names: Sequence[str] = ()) -> tuple[ToolSchema, ...]:
        """Return the tools in a stable order; what was opened later stands at the end."""

    def open_schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]:
        """Return those of these that stand in no first prompt."""

    def effect(
        self,
        call: ToolCall,
        ctx: BranchContext[Any],
        provenance: tuple[Provenance, ...],
        open_names: Sequence[str] = (),
    ) -> Effect:
        """Return the effect of a call; a mistake gives an invalid one with the sentence that says what is allowed."""


@dataclass
class ModelDecider:
    """`decide` with a model: builds the request, parses the answer, turns mistakes into observations.

    Attributes:
        tail: renders the part of the prompt that changes from step to step; last, so that the front stays cacheable.
        native: native tool calls, or the JSON text format for models without them.
        max_calls: calls accepted in one decision.
        content_hash: of the model's profile.
        plain: whether plain words, said twice, are an answer (they cannot be where a structured one is asked for).
        text_ends: whether they are the answer the first time they are said, unless work is open (`open_work`).
        fields: whether the reasoning is written in fields (a decision in the JSON text format says so otherwise).
        keeps_tools: whether the last step offers what every step does; else the finishing tool alone.
        forces: whether the last step forces the finishing call, besides asking for it.
        finish: the name of the tool that ends the agent's work.
        last_request: what the next one shares with it need not be hashed again.
    """

    model: str
    tools: Toolset
    tail: Callable[[State, list[Seen]], str]
    native: bool = True
    settings: ModelSettings = field(default_factory=ModelSettings)
    max_calls: int = 16
    role: str = "agent"
    content_hash: str = ""
    plain: bool = True
    text_ends: bool = False
    fields: bool = True
    keeps_tools: bool = False
    forces: bool = False
    finish: str = "done"
    last_request: ModelRequest | None = field(default=None, init=False)

    async def __call__(self, state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        final = bool(state.must_answer)
        lasting = tuple(Message(role="user", content=seen.blocks) for seen in view if seen.keep)
        blocks = [block for seen in view if not seen.keep for block in seen.blocks]
        tail = TextBlock(text=self.tail(state, view), source=Source(kind="prompt"), trust=Trust.SYSTEM)
        messages = (*state.messages, *lasting, Message(role="user", content=(*blocks, tail)))
        schemas = self.tools.schemas(state.open_tools)
        settings = self.settings
        if final and self.keeps_tools:  # the front of the prompt stays as it is, for the provider's cache
            settings = (
                settings.model_copy(update={"tool_choice": self.finish}) if self.forces and self.native else settings
            )
        elif final:
            schemas = tuple(schema for schema in schemas if schema.name == self.finish)
        new_provenance = provenance_of([b for m in messages[len(state.messages) :] for b in m.content])
        provenance = union(state.sources, new_provenance, descriptions(schemas))
        request = ModelRequest(
            model=self.model, messages=messages, tools=schemas if self.native else (), settings=settings
        ).after(self.last_request)
        if state.cut and not final:  # the last reply has the room that is kept for it
            request = self._roomier(request, state.cut)
        self.last_request = request
        # A program that an agent writes as its decision is no answer in words.
        ctx.answering = (self.finish, self.text_ends and self.plain and ctx.manifest.action == "tools")
        outcome = await ctx.perform(
            Effect(
                kind=EffectKind.REQUEST_MODEL,
                component=f"{self.model}@1.0.0",
                content_hash=self.content_hash,
                request=request,
                mode=Mode.REPEATABLE,
                role=self.role,
                purpose="final" if final else "decision",
                provenance=provenance,
            )
        )
        if outcome.status == "limited":
            return Decision(shortage=outcome.error, mail=lasting)
        if not outcome.ok:
            too_long = outcome.error_type == ModelContextError.__name__
            overflow = estimate_input_tokens(request) if too_long else 0
            return Decision(problem=outcome.error, mail=lasting, final=final, overflow=overflow, finish=self.finish)
        decision = self._interpret(state, outcome, ctx, provenance, lasting, final)
        if not any(call.name == self.finish for call in decision.tool_calls) and not (decision.ends and decision.words):
            ctx.no_answer()
        beside = request.model_copy(update={"messages": messages[len(state.messages) + len(lasting) :]})
        scale = outcome.response.usage.input_tokens / estimate_input_tokens(request)
        scale = scale if 0.4 <= scale <= 3 else 0.0  # some servers do not count what they have cached
        return decision.model_copy(update={"overhead": estimate_input_tokens(beside), "scale": scale})

    def _interpret(
        self,
        state: State,
        outcome: Outcome,
        ctx: BranchContext[Any],
        provenance: tuple[Provenance, ...],
        messages: tuple[Message, ...],
        final: bool,
    ) -> Decision:
        response = outcome.response
        former = ctx.manifest.checks < READ_WHOLE
        schemas = self.tools.schemas(state.open_tools)
        reply = read_reply(response, schemas, native=self.native, finish=self.finish, former=former)
        fields, calls, problem = self.read(reply, response, state, final=final)
        effects = []
        left_out: dict[str, tuple[str, ...]] = {}
        last = calls[-1].arguments if calls else ""
        is_cut = reply.incomplete and bool(calls) and last == reply.calls[-1].arguments
        cut = self.cut_at(response) if is_cut or not calls or (former and isinstance(last, str)) else 0
        for index, call in enumerate(calls):
            effect = self.effect(call, ctx, provenance, final=final, open_names=state.open_tools)
            is_unread = is_cut and call is calls[-1]
            if effect.invalid is not None and not is_unread:
                effect, missing = self._mend(call, effect, ctx, provenance, state, final=final)
                left_out |= {call.id: missing} if missing else {}
            if call is calls[-1] and (is_unread or (cut and effect.invalid is not None)):
                reason = f"your reply was cut at {cut} tokens within this call" if cut else f"{call.name}: {UNREADABLE}"
                effect = effect.model_copy(update={"invalid": reason})
            if repair := reply.repair_of(call):
                effect = effect.model_copy(update={"repaired": repair})
            if index >= self.max_calls:
                effect = effect.model_copy(
                    update={"invalid": f"too many calls in one step: at most {self.max_calls} are executed"}
                )
            effects.append(effect)
        thoughts = fields or {}
        plain = self.plain and not calls and response.finish_reason == "stop" and self.is_prose(reply, fields)
        finish = next((schema for schema in self.tools.schemas(state.open_tools) if schema.name == self.finish), None)
        leftover = ""
        if plain and self.text_ends:
            leftover = ("" if former else reply.problem) or open_work(state, ctx, finish)
        words = reply.words if self.native else reply.text
        text = TextBlock(text=words, source=Source(kind="agent", ref=ctx.actor), trust=outcome.trust)
        message = Message(
            role="assistant",
            content=(text,) if words else (),
            tool_calls=calls if self.native else (),
            thoughts=response.thoughts,
        )
        return Decision(
            thinking=_thoughts(reply, fields),
            evaluation=str(thoughts.get("evaluation_previous_goal") or ""),
            memory=str(thoughts.get("memory") or ""),
            next_goal=str(thoughts.get("next_goal") or ""),
            message=message if message.content or message.tool_calls else None,
            tool_calls=calls,
            calls=tuple(effects),
            mail=messages,
            problem=leftover or problem,
            final=final,
            native=self.native,
            words=answer_of(words, ctx) if plain else "",
            ends=self.text_ends and not leftover,
            refusal=refusal_of(response, ctx),
            trouble=bool(cut) or (not calls and (response.finish_reason == "content_filter" or not words.strip())),
            cut=cut,
            extra_names=left_out,
            finish=self.finish,
        )

    def cut_at(self, response: ModelResponse) -> int:
        """Return the tokens at which a reply was cut; 0 for one that was not."""
        if response.finish_reason != "length":
            return 0
        limit = self.last_request.settings.max_tokens if self.last_request is not None else None
        return max(response.usage.output_tokens, limit or 1)

    def _roomier(self, request: ModelRequest, cut: int) -> ModelRequest:
        """Return the request with more room for its reply than the one before had, whose reply was cut."""
        room, most = cut * MORE_ROOM, request.settings.max_tokens
        changes = {"least_tokens": room, "max_tokens": None if most is None else max(most, room)}
        return request.model_copy(update={"settings": request.settings.model_copy(update=changes)})

    def _mend(
        self,
        call: ToolCall,
        effect: Effect,
        ctx: BranchContext[Any],
        provenance: tuple[Provenance, ...],
        state: State,
        *,
        final: bool,
    ) -> tuple[Effect, tuple[str, ...]]:
        """Return the effect of a call whose arguments do not fit, as it was plainly meant, and what it leaves out."""
        schema = next((schema for schema in self.tools.schemas(state.open_tools) if schema.name == call.name), None)
        former = ctx.manifest.checks < READ_WHOLE
        arguments = repair(call.arguments, schema.parameters, former=former) if schema is not None else None
        if schema is None or arguments is None:
            return effect, ()
        extra = tuple(unknown(arguments, schema.parameters))
        for names in ((), extra) if extra else ((),):
            rest = {name: value for name, value in arguments.items() if name not in names}
            again = call.model_copy(update={"arguments": rest})
            attempt = self.effect(again, ctx, provenance, final=final, open_names=state.open_tools)
            if attempt.invalid is None and (not names or harmless(attempt)):
                return attempt, names
        return effect, ()

    def read(
        self, reply: ModelReply, response: ModelResponse, state: State, *, final: bool
    ) -> tuple[dict[str, Any] | None, tuple[ToolCall, ...], str | None]:
        """Return the fields of the reasoning, the calls, and why there are none, or not all of them."""
        calls, problem = self._calls(reply, response, state)
        if final:
            calls = tuple(call for call in calls if call.name == self.finish)[:1]
        return reply.fields, calls, problem

    def effect(
        self,
        call: ToolCall,
        ctx: BranchContext[Any],
        provenance: tuple[Provenance, ...],
        *,
        final: bool,
        open_names: Sequence[str] = (),
    ) -> Effect:
        return self.tools.effect(call, ctx, provenance, open_names)

    def is_prose(self, reply: ModelReply, fields: dict[str, Any] | None) -> bool:
        """Return True if a reply without a call is in plain words, which may be meant as the answer."""
        # An answer in words may hold JSON of its own; the fields of a decision say that it is none.
        if not self.native:  # asked for JSON, the model may have tried to write it
            return self.text_ends and not any(mark in reply.text for mark in ("{", "```"))
        return fields is None or (self.text_ends and not any(name in fields for name in DECISION_FIELDS))

    def _calls(
        self, reply: ModelReply, response: ModelResponse, state: State
    ) -> tuple[tuple[ToolCall, ...], str | None]:
        if reply.calls:
            return _unique(reply.calls, state.step), reply.problem or None
        fields = reply.fields
        names = ", ".join(schema.name for schema in self.tools.schemas(state.open_tools))
        ways = f"call at least one of: {names}. To finish, call {self.finish} with the answer"
        if reply.problem:
            return (), reply.problem
        if response.finish_reason == "length":
            at = self.cut_at(response)
            return (), f"your reply was cut at {at} tokens before a call; this one may be longer, but be brief"
        if response.finish_reason == "content_filter":
            return (), "the reply was withheld or refused; put the next step differently"
        if not reply.text.strip():
            return (), f"your reply was empty; {ways}"
        if not self.native and fields is None:
            form = '"thinking", "evaluation_previous_goal", "memory", "next_goal"' if self.fields else '"thought"'
            return (), (
                "your reply was not the JSON object that was asked for; answer with "
                f'{{{form}, "tool": [{{"name", "args"}}]}}; tools: {names}'
            )
        return (), f"your reply called no tool; {ways}"


def _thoughts(reply: ModelReply, fields: dict[str, Any] | None) -> str:
    """Return the reasoning of a reply: the field for it, else what the provider gives of it, else its words."""
    thoughts = fields or {}
    return str(thoughts.get("thinking") or thoughts.get("thought") or reply.thoughts or ("" if fields else reply.text))


def _unique(calls: tuple[ToolCall, ...], step_number: int) -> tuple[ToolCall, ...]:
    """Give every call an id of its own: some servers send none, or the same one twice."""
    seen: set[str] = set()
    result = []
    for index, call in enumerate(calls):
        last = call
        if not call.id or call.id in seen:
            last = call.model_copy(update={"id": f"call_{step_number}_{index}"})
        if not _is_json(last.arguments):
            last = last.model_copy(update={"arguments": repr(last.arguments)})
        seen.add(last.id)
        result.append(last)
    return tuple(result)


def _is_json(arguments: dict[str, JsonValue] | str) -> bool:
    """Return True if arguments can be written: models give NaN and infinities too, which JSON does not have."""
    try:
        sha256_json(arguments)
    except ValueError:
        return False
    return True
