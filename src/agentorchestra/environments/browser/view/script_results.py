"""Results of `page.js` and `rendered.js` by type, as a page can make them say anything."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from agentorchestra.core.errors import ToolError

T = TypeVar("T")


class Scrolled(BaseModel):
    """The scroll position of something, in CSS pixels; whether it moved."""

    moved: bool
    above: float
    below: float
    left: float
    right: float


class Size(BaseModel):
    width: float
    height: float


class Field(BaseModel):
    tag: str
    type: str
    disabled: bool
    readonly: bool
    suggests: bool
    takes: bool


class Option(BaseModel):
    label: str
    value: str
    disabled: bool = False


class Options(BaseModel):
    multiple: bool
    options: list[Option]


class Film(BaseModel):
    """A video: seconds, pixels, tracks, what its subtitles say now."""

    at: float | None
    length: float | None
    playing: bool
    ended: bool
    width: float
    height: float
    error: str
    ready: int
    tracks: list[str]
    said: str


class Rendered(BaseModel):
    """A page as it is rendered; whether it is only its beginning."""

    html: str
    cut: bool


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def as_told(kind: type[T], value: Any) -> T:
    """Return what a script said; a ToolError if it is something else: the page has changed what scripts are made of."""
    try:
        result: T = _adapter(kind).validate_python(value)  # type: ignore[arg-type]
    except ValidationError:
        raise ToolError(
            "the page meddles with the scripts that look at it; use places in pixels on a screenshot, or another page"
        ) from None
    return result
