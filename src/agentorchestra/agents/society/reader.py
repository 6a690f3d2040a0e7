"""A reader of conversations: a model finds where a leader corrected what it was told (003, sec. 4.4.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, JsonValue, ValidationError

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.forms import TEXT, Form, Inquiry, Questioner, form, limit_status, list_of, material
from agentorchestra.agents.types import Kit
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.log.conversation import AgentExchange, Conversation
from agentorchestra.runtime.context import BranchContext

NAME = "edge_cases"
TASK = "Find where the agents of {run} corrected what they were told."

MOST_CHARS = 200_000
"""Characters of all messages together that the model is shown; of longer ones it sees the beginnings."""

Case = Literal["criterion_tightened", "assumption_audited", "misaligned_instruction_corrected"]


class EdgeCase(BaseModel, frozen=True):
    """A result that was reported as good, and corrected all the same."""

    case: Case  # which of the paper's three
    messages: tuple[int, ...]  # the numbers of the exchanges that show it, in their order, at least two
    why: str  # what was wrong, and what was done about it


def options_for(talk: Conversation) -> dict[str, JsonValue]:
    most = max(200, MOST_CHARS // max(1, len(talk.exchanges)))
    exchanges = [mail.model_copy(update={"content": _beginning(mail.content, most)}) for mail in talk.exchanges]
    return {"conversation": talk.model_copy(update={"exchanges": tuple(exchanges)}).model_dump(mode="json")}


def edge_cases(output: JsonValue) -> list[EdgeCase]:
    cases = output.get("cases") if isinstance(output, dict) else None
    return [EdgeCase.model_validate(case) for case in (cases if isinstance(cases, list) else [])]


class SocietyReader:
    content_hash = "1"

    def check_options(self, options: Mapping[str, JsonValue], agents: Collection[str], model: str) -> None:
        try:
            Conversation.model_validate(options.get("conversation"))
        except ValidationError as exc:
            raise SettingsError(
                f"{NAME} reads the option `conversation`, which is none: {exc.errors()[0]['msg']}; "
                "`agentorchestra show RUN --patterns --model MODEL` gives it that of a run"
            ) from None

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Ask for the cases; a reply that names messages that do not exist is refused and asked for again."""
        talk = Conversation.model_validate(ctx.manifest.options.get("conversation"))
        members = [{"name": name, "description": description} for name, description in talk.members.items()]
        question = Inquiry(
            "edge_cases",
            _form(len(talk.exchanges)),
            {"leader": talk.leader, "members": members},
            (material(talk.task, "task"), *(material(_line(exchange), exchange.sender) for exchange in talk.exchanges)),
            decides=True,
        )
        questioner = Questioner(ctx, kit, spec.role, spec.model)
        reply = await questioner.one(question)
        if reply is None:
            status = limit_status(questioner.limited) if questioner.limited else RunStatus.FAILED
            reason = (
                questioner.limited or "the model gave no cases that name messages of this conversation, asked twice"
            )
            return AgentResult(status=status, report=reason)
        cases = [case | {"messages": sorted({*case["messages"]})} for case in reply["cases"]]
        return AgentResult(answer=f"{len(cases)} found", output={"cases": cases})


def reader() -> Agent:
    """Return the reader as an agent; nobody delegates to it."""
    return Agent(
        name=NAME,
        description="Finds in a conversation of agents where their leader corrected what it was told.",
        prompt="edge_cases",
        role="judge",
        max_steps=2,
        drive=SocietyReader(),
        within=(NAME,),
    )


def _form(last: int) -> Form:
    """Return the form of the reply for a conversation whose messages are numbered up to `last`."""
    kinds = {"type": "string", "enum": [*get_args(Case)]}
    loose = {"type": "array", "items": {"type": "integer"}}
    numbers = {"type": "integer", "minimum": 1, "maximum": last}
    case = form(
        ("case", "messages"),
        why=TEXT,
        case=kinds,
        messages=Form(loose, {"type": "array", "items": numbers, "minItems": 2, "uniqueItems": True}),
    )
    return form(("cases",), cases=list_of(case))


def _line(exchange: AgentExchange) -> str:
    thread = f" in thread {exchange.thread!r}" if exchange.thread else ""
    to = f" to {', '.join(exchange.to)}" if exchange.to else ""
    refusal = f" (refused: {exchange.refused})" if exchange.refused else ""
    return f"[{exchange.n}] {exchange.kind} of {exchange.sender}{to}{thread}{refusal}\n{exchange.content}"


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n(The rest is left out.)"
