"""A run as one HTML file that runs nothing and loads nothing: what models, files and servers wrote stays text."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import JsonValue

from agentorchestra.cli.output import CONTROL, bill, dollars, number, plural, unknown_cost
from agentorchestra.cli.view.model import RunView, Span
from agentorchestra.cli.view.sequence import agents, rows, words_of
from agentorchestra.cli.view.tree import step_line, tree
from agentorchestra.core.budget import Usage
from agentorchestra.core.content import Block, text_of
from agentorchestra.core.effects import EffectKind, Outcome
from agentorchestra.core.errors import StoreError
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import RunFile, RunResult
from agentorchestra.log.conversation import Conversation
from agentorchestra.trust.arguments import argument_rows

SHOWN_CHARS = 20_000  # characters of one text that the page shows; the log has all of it


PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "image/svg+xml"})
"""Media types that browsers draw; in an `img` none of them runs a script, SVG neither."""

MOST_PICTURE_BYTES = 4 << 20  # bytes of one picture that stands in the page
MOST_PICTURES_BYTES = 16 << 20  # bytes of all of them together


async def pictures(files: Sequence[RunFile], read: Callable[[str], Awaitable[bytes]]) -> dict[str, str]:
    """Return the pictures among the files of a run as `data:` addresses by name, as many as the page has room for.

    Args:
        read: gives the bytes of a blob by its SHA-256; a StoreError leaves the picture out.
    """
    images: dict[str, str] = {}
    room = MOST_PICTURES_BYTES
    for file in files:
        if file.media_type not in PICTURES or file.size > min(room, MOST_PICTURE_BYTES):
            continue
        try:
            data = await read(file.sha256)
        except StoreError:
            continue
        if len(data) <= min(room, MOST_PICTURE_BYTES):  # the size in the log of an imported run may be wrong
            room -= len(data)
            images[file.name] = f"data:{file.media_type};base64,{base64.b64encode(data).decode()}"
    return images


def render(
    # `view`, `record`, `result`: of the run
    view: RunView,
    record: RunRecord,
    result: RunResult,
    *,
    is_dead: bool,  # the process that drove it died
    talk: Conversation | None,  # what its agents wrote to each other
    pictures: Mapping[str, str] = MappingProxyType({}),  # those among its files, see `pictures`
) -> str:
    page = _environment().get_template("run.html.j2")
    return page.render(
        run=record,
        manifest=record.manifest,
        result=result,
        view=view,
        is_dead=is_dead,
        pictures=pictures,
        talkers=[] if talk is None else agents(talk),
        talked=[] if talk is None else rows(talk),
        nodes=tree(view),
        agents=[agent for _, agent in view.root.walk() if agent.key is not None],
        budget=[(name, f"{value:g}") for name, value in view.budget.model_dump(exclude_none=True).items()],
        asked=lambda span: _request_of(view, span),
    ).replace("\r", "")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("agentorchestra.cli.view"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(step_line=step_line, plural=plural, number=number, bill=bill, usage_rows=_usage_rows)
    environment.globals.update(
        said=words_of, answered=_reply_of, of_blocks=_blocks, result_blocks=_result_blocks, argument_rows=argument_rows
    )
    environment.filters.update(cut=_cut, link=_link, stamp=lambda at: f"{at:%Y-%m-%d %H:%M:%S} UTC", json=_json)
    return environment


def _visible(value: Any) -> Any:
    """Show control characters and changes of direction, which would steer a reader's eyes, as text.

    Everything that the template writes comes through here, and is escaped after.
    """
    if isinstance(value, Markup):
        return value
    text = "" if value is None else str(value)
    # Half a pair of surrogates is no character, and no UTF-8.
    text = text.encode("utf-8", "backslashreplace").decode()
    return CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _cut(text: str) -> str:
    if len(text) <= SHOWN_CHARS:
        return text
    left = f"{len(text) - SHOWN_CHARS:,} more characters: `agentorchestra show RUN --json` has them"
    return f"{text[:SHOWN_CHARS]}\n[... {left}]"


def _link(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return address if parts.scheme.lower() in ("http", "https") and parts.netloc else ""


def _json(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _usage_rows(usage: Usage) -> list[tuple[str, str]]:
    rows = [
        ("requests", usage.requests),
        ("input tokens", usage.input_tokens),
        ("of these read from the cache", usage.cache_read_tokens),
        ("of these written to the cache", usage.cache_write_tokens),
        ("output tokens", usage.output_tokens),
        ("of these reasoning", usage.reasoning_tokens),
    ]
    unknown = unknown_cost(usage)
    return [
        *((name, number(count)) for name, count in rows if count),
        ("cost", dollars(usage.cost_usd)),
        *([("of attempts without an answer", unknown)] if unknown else []),
    ]


def _origin(block: Block) -> str:
    source = block.source
    parts = [source.kind, source.ref, source.place or ""] if source is not None else []
    return " ".join([*(part for part in parts if part), f"({block.trust.value})"])


def _blocks(blocks: tuple[Block, ...]) -> list[tuple[str, str]]:
    return [(_origin(block), text_of((block,))) for block in blocks]


def _request_of(view: RunView, span: Span) -> dict[str, Any] | None:
    """Return an effect's request: how many messages it repeats, the new ones, the tools it offers, its parameters."""
    entry = span.effect.get("request")
    if not entry:
        return None
    try:
        request = view.ledger.codec.decode(span.effect).request
    except StoreError:
        return None
    assert request is not None
    count = len(request.messages) - len(entry.get("appended", ()))
    settings = request.settings.model_dump(mode="json", exclude_defaults=True)
    return {
        "model": request.model,
        "repeated": count,
        "messages": request.messages[count:],
        "tools": [tool.name for tool in request.tools],
        "settings": ", ".join(f"{name} {value}" for name, value in settings.items()),
    }


def _reply_of(span: Span) -> Outcome | None:
    outcome = span.record.outcome
    return outcome if span.kind is EffectKind.REQUEST_MODEL and outcome is not None and outcome.ok else None


def _result_blocks(span: Span) -> list[tuple[str, str]]:
    outcome = span.record.outcome
    if outcome is None:
        return []
    if outcome.error is None and isinstance(outcome.value, dict | list) and "$blocks" not in outcome.value:
        return [(f"({outcome.trust.value})", _json(outcome.value))]
    return _blocks(outcome.blocks())
