"""The probe of a frame: the results of probe.js by type, as a page can make it say anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from agentorchestra.environments.browser.scripts import ask
from agentorchestra.environments.browser.view.snapshot import Box, PageNode

if TYPE_CHECKING:
    from playwright.async_api import Frame
    from pydantic import JsonValue

T = TypeVar("T")

MOST_ELEMENTS = 8000  # in a frame: a snapshot takes some 100 ms for 1,000 of them, and more than in proportion beyond
_MOST_FOUND = 3000
_LIMITS = {"ms": 1000, "elements": MOST_ELEMENTS, "found": _MOST_FOUND, "nodes": 3000, "chars": 200_000}
_STATES = ("active", "disabled", "checked", "selected", "expanded")


@dataclass(frozen=True, slots=True)
class Scroll:
    """The scroll position and size of a page, in CSS pixels."""

    x: float = 0
    y: float = 0
    width: float = 0  # width, height: of the whole page
    height: float = 0
    seen_width: float = 1  # seen_width, seen_height: of the part that is seen
    seen_height: float = 1

    @property
    def above(self) -> float:
        """Return how many times what is seen lies above it."""
        return max(self.y, 0) / max(self.seen_height, 1)

    @property
    def below(self) -> float:
        return max(self.height - self.seen_height - self.y, 0) / max(self.seen_height, 1)


@dataclass(frozen=True, slots=True)
class NodeTrait:
    """An element with something that the snapshot does not say."""

    # `field`, `native` (a link, a button), `listens` (to the pointer), `pointer` (its cursor), `drags`, `focus`,
    # `hovers`, `canvas`, `frame`, `scrolls`, `floats` (not cut off by the scrolling place it lies in), `state`
    kind: str
    box: Box
    tag: str
    number: int  # its own in the document
    at: int = 0  # its place in `PageProbe.order`, from 1
    label: str = ""
    hint: str = ""  # its id, class or icon
    classes: str = ""  # its class or icon, where `hint` is its id
    state: str = ""  # classes that it has and not all beside it
    hovers: bool = False  # its hover shows what is hidden now
    value: str = ""  # of a field for text, with the blanks that a snapshot leaves out
    secret: bool = False  # its value is nobody's business: passwords, cards, one-time codes
    filled: bool = False
    unseen: bool = False
    clipped: bool = False  # what cuts it off wholly cannot be scrolled
    covered: str = ""  # what lies over its middle
    facts: dict[str, Any] = field(default_factory=dict)  # of a field: `type`, `required`, ...


@dataclass(frozen=True, slots=True)
class PageProbe:
    """A frame as probe.js saw it."""

    token: str = ""  # names the document: another after each navigation
    url: str = ""
    title: str = ""
    elements: int = 0  # how many it has
    weight: int = 0  # characters that a snapshot of it would have to carry at least
    depth: int = 0  # of its elements in one another
    stopped: bool = False  # not everything was looked at
    scroll: Scroll = Scroll()
    asks_password: bool = False  # a field for one can be seen
    traits: tuple[NodeTrait, ...] = ()
    secrets: frozenset[str] = frozenset()  # values that must not be shown
    # Of all that is seen, as it comes in the document: box, depth, and 1: behind a text, 2: with one of its own.
    order: list[Any] = field(default_factory=list)
    sketch: PageNode = field(default_factory=lambda: PageNode("page"))  # the plain view, where it was asked for
    opaque: bool = False  # the page lets no script look into it


def options(*, whole: bool = False, sketch: bool = False) -> dict[str, JsonValue]:
    """Return what probe.js is given: `whole` and `sketch` as for `probe`."""
    return {**_LIMITS, "whole": whole, "drawn": sketch}


async def probe(frame: Frame, *, whole: bool, sketch: bool) -> PageProbe | None:
    """Look into a frame; None if it does not answer in time or is gone, next to nothing if it lets nobody look.

    With `whole` what is not in view counts too; with `sketch` the plain view is made, whatever the page's size.
    """
    from playwright.async_api import Error

    for pause in (0.1, 0.2, 0.4, 0.8, 0.0):
        try:
            async with asyncio.timeout(2.5):
                answer = await ask(frame.evaluate, "probe", options(whole=whole, sketch=sketch))
            return read(answer) if isinstance(answer, dict) else _opaque_probe(frame)
        except TimeoutError:
            return None
        except Error:
            # A page that leads on at once takes the answer with it; one that redefines what scripts use gives none.
            if frame.is_detached() or frame.page.is_closed():
                return None
            await asyncio.sleep(pause)
    return _opaque_probe(frame)


def _opaque_probe(frame: Frame) -> PageProbe:
    size = frame.page.viewport_size or {"width": 1280, "height": 720}
    return PageProbe(
        url=frame.url, scroll=Scroll(seen_width=size["width"], seen_height=size["height"]), stopped=True, opaque=True
    )


def read(answer: dict[str, Any]) -> PageProbe:
    """Return what probe.js said."""
    start = _dict(answer.get("start"))
    page = PageNode("page", above=whole(start.get("above")), below=whole(start.get("below")))
    _nodes(start.get("children"), page)
    traits = (_trait(_dict(item)) for item in _list(answer.get("found"))[:_MOST_FOUND])
    return _record(
        PageProbe,
        answer,
        token=_text(answer.get("token"))[:20],
        scroll=_record(Scroll, _dict(answer.get("scroll"))),
        traits=tuple(trait for trait in traits if trait is not None),
        secrets=frozenset(secret for secret in _list(answer.get("secrets")) if isinstance(secret, str) and secret),
        order=_list(answer.get("order")),
        sketch=page,
        opaque=False,
    )


def _trait(item: dict[str, Any]) -> NodeTrait | None:
    box = _box(item.get("box"))
    return _record(NodeTrait, item, box=box, tag=_text(item.get("tag"))[:40], facts=item) if box is not None else None


def _nodes(tree: Any, page: PageNode) -> None:
    """Return the plain view as nodes; a reference is the element's number until it gets one of ours."""
    stack: list[tuple[Any, PageNode]] = [(tree, page)]
    while stack:
        items, parent = stack.pop()
        for item in _list(items):
            if isinstance(item, str):
                parent.children.append(item)
            elif isinstance(item, dict):
                role = _text(item.get("role"))
                node = PageNode(
                    role if role.isalpha() else "generic",
                    name=_text(item.get("name")),
                    ref=str(whole(item.get("number"))),
                    box=_box(item.get("box")),
                    states=tuple(name for name in _STATES if item.get(name) is True),
                    url=_text(item.get("url")),
                    placeholder=_text(item.get("placeholder")),
                    above=whole(item.get("above")),
                    below=whole(item.get("below")),
                )
                if level := whole(item.get("level")):
                    node.states = (*node.states, f"level={level}")
                parent.children.append(node)
                stack.append((item.get("children"), node))


def _text(value: Any) -> str:
    return value[:4000] if isinstance(value, str) else ""


def _number(value: Any) -> float:
    return min(max(float(value), -1e9), 1e9) if isinstance(value, int | float) and value == value else 0.0


def whole(value: Any) -> int:
    return int(_number(value))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_TYPES: dict[Any, Callable[[Any], Any]] = {"str": _text, "float": _number, "int": whole, "bool": bool}


def _record(kind: Callable[..., T], answer: dict[str, Any], **values: Any) -> T:
    """Return a dataclass of what a script said, each field by its type: what is of another type is empty."""
    return kind(**{name: read(answer.get(name)) for name, read in _fields(kind) if name not in values}, **values)


@cache
def _fields(kind: Callable[..., Any]) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the names of a dataclass's fields that are of simple types, with what reads them."""
    return [(field.name, _TYPES[field.type]) for field in fields(kind) if field.type in _TYPES]  # type: ignore[arg-type]


def _box(value: Any) -> Box | None:
    if not isinstance(value, list) or len(value) != 4:
        return None
    x, y, width, height = (whole(number) for number in value)
    return x, y, width, height
