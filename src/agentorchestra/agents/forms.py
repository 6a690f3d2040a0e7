"""Questions to a model whose replies are JSON of a schema: what agents whose workflow is code ask, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, JsonValue

from agentorchestra.agents.requests import request_effect, role_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, SourceKind, TextBlock, Trust
from agentorchestra.core.effects import Effect, Outcome
from agentorchestra.core.errors import OutputError, UnknownComponentError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.spec import RunStatus
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.structured_output import read_output

TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
FLAG: dict[str, Any] = {"type": "boolean"}
INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}

L = TypeVar("L", bound=BaseModel)


@dataclass(frozen=True)
class Form:
    """The JSON object that a reply is to be: the schema that a `request` has, and that by which its reply is `read`.

    Providers that constrain their decoding take only schemas in which every property is required and no other is
    allowed. A reply of another model is taken as soon as it has what cannot be done without.
    """

    request: dict[str, Any]
    read: dict[str, Any]


def form(needed: Sequence[str], **properties: dict[str, Any] | Form) -> Form:
    """Return a form with these properties, in this order; what is not `needed` may be missing and is read as empty."""
    written_form, read = (
        {name: getattr(value, side) if isinstance(value, Form) else value for name, value in properties.items()}
        for side in ("request", "read")
    )
    return Form(
        {"type": "object", "properties": written_form, "required": [*written_form], "additionalProperties": False},
        {"type": "object", "properties": read, "required": [*needed]},
    )


def list_of(form: Form) -> Form:
    return Form({"type": "array", "items": form.request}, {"type": "array", "items": form.read})


@dataclass(frozen=True)
class Inquiry:
    """A question to a role, whose reply has a form.

    Attributes:
        final: asked with what the budget keeps for an answer.
        decides: begins a piece of work: the budget then keeps as much for its answer.
        beside: of use, but not needed: that the budget has no room for it never ends the run.
    """

    prompt: str
    schema: dict[str, Any] | Form
    values: Mapping[str, Any] = field(default_factory=dict)
    content: tuple[Block, ...] = ()
    final: bool = False
    decides: bool = False
    beside: bool = False


@dataclass
class Questioner:
    ctx: BranchContext[Any]
    kit: Kit | None  # None for the context of a tool, whose run knows how to ask
    role: str
    model: str = ""  # another one than the role's, chosen by whoever delegated
    temperature: float | None = None  # of its requests, where the role has none of its own; None for the model's
    tokens: int = field(default=0, init=False)  # that the replies and their questions took so far
    limited: str = field(default="", init=False)  # why the budget had no room for a question, "" while it has
    # whether no question is begun any more but a final one
    over: Callable[[], bool] = field(default_factory=lambda: lambda: False, init=False)  # as a default it is a method
    # when those that have to queue for their model are not begun any more either
    begin_by: datetime | None = field(default=None, init=False)
    omissions: list[Inquiry] = field(default_factory=list, init=False)  # the questions that were not begun for that

    async def one(self, question: Inquiry) -> dict[str, Any] | None:
        return (await self.all([question]))[0]

    async def all(self, questions: Sequence[Inquiry]) -> list[dict[str, Any] | None]:
        """Return the replies in order; None where nobody could be asked, or nothing that fits came, asked twice."""
        replies: list[dict[str, Any] | None] = [None] * len(questions)
        open_ = dict.fromkeys(range(len(questions)), "")
        for _ in range(2):
            if self.over():
                self.omissions += [questions[index] for index in open_ if not questions[index].final]
                open_ = {index: problem for index, problem in open_.items() if questions[index].final}
            if not open_:
                break
            effects = [self._effect(questions[index], problem) for index, problem in open_.items()]
            outcomes = await self.ctx.perform_all(effects)
            rows = zip([*open_], outcomes, strict=True)
            open_ = {}
            for index, outcome in rows:
                self.tokens += outcome.usage.input_tokens + outcome.usage.output_tokens
                if outcome.status == "timeout":
                    self.omissions.append(questions[index])
                value = self._read(outcome, questions[index].schema)
                if isinstance(value, dict):
                    replies[index] = value
                elif isinstance(value, str):
                    open_[index] = value
        return replies

    def left_out(self, question: Inquiry) -> bool:
        """Return True if a question was not begun, since no more were to begin."""
        return any(other is question for other in self.omissions)

    def _effect(self, question: Inquiry, problem: str) -> Effect:
        content = question.content
        if problem:
            content = (*content, TextBlock(text=f"Your last reply was of no use: {problem}", trust=Trust.SYSTEM))
        build = self.ctx.run.services.request_effect if self.kit is None else partial(request_effect, self.kit)
        if build is None:
            raise UnknownComponentError("no models are known in this run; the workspace does that")
        effect: Effect = build(
            self.ctx, question.prompt, content, role=self.role, model=self.model, media="named", values=question.values
        )
        assert effect.request is not None
        schema = question.schema.request if isinstance(question.schema, Form) else question.schema
        update: dict[str, Any] = {"output_schema": schema}
        if self.temperature is not None and role_of(self.role, self.ctx).temperature is None:
            update["temperature"] = self.temperature
        settings = effect.request.settings.model_copy(update=update)
        request = effect.request.model_copy(update={"settings": settings})
        # A tool's questions are beside the work of the agent that called it.
        usual = "tool" if question.beside or self.kit is None else question.prompt
        purpose = "final" if question.final else "decision" if question.decides else usual
        begin_by = None if question.final else self.begin_by
        return effect.model_copy(update={"request": request, "purpose": purpose, "begin_by": begin_by})

    def _read(self, outcome: Outcome, schema: dict[str, Any] | Form) -> JsonValue:
        """Return the reply; a sentence for one that does not fit, None where nobody could be asked."""
        if not outcome.ok:
            if outcome.status == "limited":
                self.limited = outcome.error or "the budget has no room for more"
            return None
        try:
            value = read_output(outcome.response.text, schema.read if isinstance(schema, Form) else schema)
        except OutputError as exc:
            return str(exc)
        return value if isinstance(value, dict) else None


def material(text: str, ref: str, kind: SourceKind = "agent") -> TextBlock:
    """Return words that may be anybody's and give no orders."""
    return TextBlock(text=text, source=Source(kind=kind, ref=ref), trust=Trust.UNTRUSTED)


def piece_block(number: int, text: str, source: str, place: str) -> TextBlock:
    origin = Source(kind="web" if "://" in source else "file", ref=source, place=place)
    return TextBlock(text=f"[{number}] {text}", source=origin, trust=Trust.UNTRUSTED)


def limit_status(reason: str) -> RunStatus:
    return RunStatus.TIMED_OUT if "active seconds" in reason else RunStatus.BUDGET_EXHAUSTED


async def call_tools(ctx: BranchContext[Any], calls: Sequence[tuple[str, dict[str, JsonValue]]]) -> list[Outcome]:
    """Call tools of the run by name, all at the same time."""
    build = ctx.run.services.tool_effect
    if build is None:
        raise UnknownComponentError("no tools are registered in this run; the workspace does that")
    return await ctx.perform_all([build(name, arguments, ctx) for name, arguments in calls])


@dataclass(frozen=True)
class Limited(Generic[L]):
    """A driver of an agent whose workflow is code; the limits of one piece of work are a part of what the agent is."""

    limits: L

    @property
    def content_hash(self) -> str:
        return sha256_json(self.limits.model_dump(mode="json"))
