"""The toolkit of agents that write to each other (003, sec. 3, table 1): threads, messages, waiting for a mention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import JsonValue

from agentorchestra.core.content import Block, Source, TextBlock, Trust, block_from, lowest
from agentorchestra.core.effects import Effect, EffectKind, Mode, Provenance
from agentorchestra.core.mail import Mail
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool, tool, tool_from_schema

LONGEST_WAIT_S = 60.0  # seconds that one wait takes at most

_COMPONENT = "mail@1.0.0"
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1}


def change(op: str, ctx: Any, **arguments: JsonValue) -> Effect:
    """Return the effect that changes the society of a run, see `core.mail.Society`."""
    return Effect(
        kind=EffectKind.SEND_MESSAGE,
        component=_COMPONENT,
        arguments={"op": op, **arguments},
        mode=Mode.PURE,
        role=ctx.role,
    )


def message(
    thread: str, content: str, mentions: Sequence[str], ctx: Any, provenance: tuple[Provenance, ...] = ()
) -> Effect:
    """Return the effect of a message. Who sends it is who performs the effect."""
    return Effect(
        kind=EffectKind.SEND_MESSAGE,
        component=_COMPONENT,
        arguments={"sender": ctx.actor, "thread": thread, "content": content, "to": list(mentions)},
        mode=Mode.PURE,
        role=ctx.role,
        provenance=provenance,
    )


@dataclass(frozen=True)
class Send:
    description: str = "Write into a thread. Only those who are mentioned are woken and read it."

    @property
    def schema(self) -> ToolSchema:
        return ToolSchema(
            name="send_message",
            description=self.description,
            parameters=_object(
                thread={**_TEXT, "description": "Its name."},
                content={**_TEXT, "description": "What you want to say, whole: nobody sees what you have seen."},
                mentions={**_NAMES, "description": "The agents that are to read it."},
            ),
        )

    def effect(self, arguments: dict[str, Any], ctx: Any, provenance: tuple[Provenance, ...]) -> Effect:
        mentions = arguments.get("mentions", [])
        return message(arguments.get("thread", ""), arguments.get("content", ""), mentions, ctx, provenance)


@dataclass(frozen=True)
class ThreadOperation:
    """A change of threads (an `Offered`), which only the leader may make."""

    name: str
    op: str
    description: str
    arguments: dict[str, Any]

    @classmethod
    def every(cls) -> list[ThreadOperation]:
        thread, participant = {"thread": {**_TEXT, "description": "Its name."}}, {"participant": _TEXT}
        return [
            cls(
                "create_thread",
                "create",
                "Open a thread with agents; you take part in each.",
                {**thread, "participants": _NAMES},
            ),
            cls("add_participant", "add", "Take an agent into a thread.", {**thread, **participant}),
            cls("remove_participant", "remove", "Take an agent out of a thread.", {**thread, **participant}),
            cls("close_thread", "close", "Close a thread that has done its work.", {**thread, "summary": _TEXT}),
        ]

    @property
    def schema(self) -> ToolSchema:
        return ToolSchema(name=self.name, description=self.description, parameters=_object(**self.arguments))

    def effect(self, arguments: dict[str, Any], ctx: Any, provenance: tuple[Provenance, ...]) -> Effect:
        return change(self.op, ctx, **arguments)


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


@tool(effect="pure", thread=False)
async def list_agents(ctx: RunContext[Any]) -> str:
    """List the agents that you can write to, with what each is for, and the open threads."""
    assert isinstance(ctx, BranchContext)
    society = ctx.run.mail.society
    losses = {name: society.lost(name) for name in society.gone}
    lines = [f"- {losses.get(name, f'{name}: {description}')}" for name, description in society.members.items()]
    threads = [f"- {name}: {', '.join(talk.participants)}" for name, talk in society.threads.items() if not talk.closed]
    return "\n".join(["Agents:", *lines, "Threads:", *(threads or ["none"])])


@dataclass(frozen=True)
class WaitForMention:
    """`wait_for_mention` of the one who leads."""

    left: Callable[[datetime], float]  # the seconds that it has from a time on; a wait ends with them

    @property
    def tool(self) -> Tool[..., Any]:
        schema = ToolSchema(
            name="wait_for_mention",
            description=(
                "Wait until somebody mentions you, at most 60 seconds. Messages that you have not read come at once."
            ),
            parameters={
                "type": "object",
                "properties": {"timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_WAIT_S}},
                "additionalProperties": False,
            },
        )
        return tool_from_schema(self._wait, schema, effect="composite", takes_context=True, trust=Trust.SYSTEM)

    async def _wait(self, ctx: BranchContext[Any], timeout_s: float = LONGEST_WAIT_S) -> ToolResult:
        seconds = min(timeout_s, self.left(ctx.now))
        wake = await next_mails(ctx, seconds)
        mails, reason = wake.mails, wake.reason
        if mails:
            note = ""
        elif reason == "all_waiting":
            note = "Nobody is at work: all agents wait, and nobody has written to you. Decide what comes next."
        elif not self.left(ctx.now):
            note = "Nobody has mentioned you, and your time is up."
        elif reason == "ended":
            note = "Nobody has mentioned you yet, but an agent is lost."
        else:
            # The time that is left makes it another result each time: waiting is no lack of progress.
            working = ", ".join(wake.working) or "nobody"
            note = f"Nobody has mentioned you within {timeout_s:g} seconds; at work: {working}. "
            note += f"{self.left(ctx.now):,.1f} seconds are left; you can wait again."
        blocks = [*mail_blocks(mails), *([block_from(note, trust=Trust.SYSTEM)] if note else [])]
        # A provider's own words may stand in why an agent was lost.
        blocks += [block_from(text, trust=Trust.AGENT) for text in wake.losses]
        return ToolResult(content=[*blocks], trust=lowest(*(block.trust for block in blocks)))


class Heard(NamedTuple):
    """How a wait ended: the messages, why, and for who leads a sentence on each lost agent and who is at work."""

    mails: list[Mail]
    reason: str
    losses: list[str]
    working: list[str]


async def next_mails(ctx: BranchContext[Any], seconds: float | None = None) -> Heard:
    """Wait for messages that mention the actor of a branch."""
    limit: dict[str, JsonValue] = {} if seconds is None else {"timeout_s": seconds}
    effect = Effect(
        kind=EffectKind.WAIT,
        component=_COMPONENT,
        arguments={"actor": ctx.actor, **limit},
        mode=Mode.REPEATABLE,
        role=ctx.role,
    )
    outcome = await ctx.perform(effect)
    value = outcome.value if isinstance(outcome.value, dict) else {}
    losses, working = (value.get(name) for name in ("lost", "working"))
    texts = [[str(name) for name in names] if isinstance(names, list) else [] for names in (losses, working)]
    return Heard(ctx.mail(outcome), str(value.get("reason", "")), *texts)


def mail_blocks(mails: Sequence[Mail]) -> list[Block]:
    """Return messages as what an agent reads: who wrote where, and what."""
    return [
        TextBlock(
            text=f"{mail.sender} in thread {mail.thread!r}:\n{mail.content}",
            source=Source(kind="agent", ref=mail.sender),
            trust=mail.trust,
        )
        for mail in mails
    ]
