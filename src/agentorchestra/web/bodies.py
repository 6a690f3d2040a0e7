"""The bodies of requests, and the sentences for what does not fit."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, field_validator
from starlette.requests import ClientDisconnect, Request

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import HttpRequestError
from agentorchestra.core.settings import Action, Finish, OnAsk, PartSettings
from agentorchestra.core.spec import RunSpec

B = TypeVar("B", bound=BaseModel)

_NOT_IN_A_NAME = re.compile(r"[/\\\x00-\x1f\x7f]")
_MOST_NAME_BYTES = 200


class _Body(BaseModel, extra="forbid", frozen=True):
    pass


class RequestBudget(Budget, extra="forbid"):
    """A budget in a request; a misspelt limit is refused, not passed over."""


def _decoded(text: Any) -> Any:
    # pydantic's own type passes over signs that are no base64, and would keep other bytes than were meant.
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        raise ValueError("this is no base64; send the bytes of the file in base64, without line ends") from None


class SentFile(_Body):
    """A file of a task: its name and its bytes in base64."""

    name: str
    content: Annotated[bytes, BeforeValidator(_decoded)]

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        if name in ("", ".", "..") or _NOT_IN_A_NAME.search(name) or len(name.encode()) > _MOST_NAME_BYTES:
            raise ValueError(f"{name!r} is no plain file name; give one without folders, e.g. lease.pdf")
        return name


class Submission(_Body):
    """POST /runs: the fields of RunSpec that may be sent; files come with their bytes."""

    task: str
    system: str | None = None
    model: str | None = None
    budget: RequestBudget | None = None
    max_steps: int | None = None
    labels: dict[str, str] = {}
    session: str | None = None
    roles: dict[str, str] = {}
    on_ask: OnAsk | None = None
    finish: Finish | None = None
    action: Action | None = None
    memory: str | None = None
    environments: tuple[str, ...] = ()
    components: dict[str, str] = {}
    parts: PartSettings | None = None
    files: tuple[SentFile, ...] = ()

    @field_validator("files")
    @classmethod
    def _names_differ(cls, files: tuple[SentFile, ...]) -> tuple[SentFile, ...]:
        names = [file.name for file in files]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two files are named {name!r}; give each its own name")
        return files

    def spec(self, files: Sequence[Path]) -> RunSpec:
        return RunSpec(**(dict(self) | {"files": files}))


class AnswerBody(_Body):
    """POST /runs/{id}/answer."""

    answer: str = Field(min_length=1)
    question: str | None = None


class ApproveBody(_Body):
    """POST /runs/{id}/approve: which question, and the code of the call that was shown with it."""

    question: str
    code: str = Field(min_length=1)


class DenyBody(_Body):
    """POST /runs/{id}/deny."""

    reason: str = ""
    question: str | None = None


class TellBody(_Body):
    """POST /runs/{id}/tell."""

    text: str
    to: str = ""


class ReasonBody(_Body):
    """POST /runs/{id}/cancel and /pause."""

    reason: str = ""


class ResumeBody(_Body):
    """POST /runs/{id}/resume."""

    budget: RequestBudget | None = None


async def read_body(request: Request, model: type[B], most_bytes: int, timeout_s: float) -> B:
    """Return the body of a request, {} for an empty one; HttpRequestError: see `read_bytes` and `parsed`."""
    return parsed(await read_bytes(request, most_bytes, timeout_s), request, model)


async def read_bytes(request: Request, most_bytes: int, timeout_s: float) -> bytes:
    """Return the bytes of a body; HttpRequestError if it is too slow (408), too large (413), cut off (400)."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _bytes(request, most_bytes)
    except TimeoutError:
        sentence = f"the body was not there after {timeout_s:g} s; send it faster, or set serve.body_timeout_s"
        raise HttpRequestError(sentence, status=408) from None


def parsed(data: bytes, request: Request, model: type[B]) -> B:
    """Return what a body says; HttpRequestError if not JSON (415), malformed (400), or a misfit (422)."""
    kind = request.headers.get("content-type", "")
    if data and kind.partition(";")[0].strip().lower() != "application/json":
        raise HttpRequestError(
            f"the content type is {kind!r}; send JSON with the header 'Content-Type: application/json'", status=415
        )
    try:
        return model.model_validate_json(data or b"{}")
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise HttpRequestError(f"the body is not JSON: {first['msg']}", status=400) from None
        place = ".".join(str(part) for part in first["loc"]) or "the body"
        message = first["msg"].removeprefix("Value error, ")
        fields = ", ".join(model.model_fields)
        raise HttpRequestError(f"{place} does not fit: {message}; the fields here: {fields}", status=422) from None


async def _bytes(request: Request, most: int) -> bytes:
    sentence = f"the body has more than {most} bytes; send less, or start the server with a larger limit"
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        raise HttpRequestError(sentence, status=413)
    data = bytearray()
    try:
        async for piece in request.stream():
            data += piece
            if len(data) > most:
                raise HttpRequestError(sentence, status=413)
    except ClientDisconnect:
        raise HttpRequestError("the body ended before its end", status=400) from None
    return bytes(data)
