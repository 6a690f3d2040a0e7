"""Arguments that several actions take, and what models write in them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from agentorchestra.core.errors import ToolError
from agentorchestra.trust.arguments import ELEMENT, INSIDE, SITE

# A reference of the state, or a place on the page as `x,y`: neither says anything to a site.
Ref = Annotated[str, Field(json_schema_extra={"format": ELEMENT})]
# The host to which what is typed goes: policy and whoever is asked see it, the environment checks it.
Site = Annotated[str, Field(json_schema_extra={"format": SITE})]
Inside = Annotated[str, Field(json_schema_extra={"format": INSIDE})]  # what is looked for in a page, and goes nowhere
Count = Annotated[int, Field(json_schema_extra={"format": ELEMENT})]
Number = Annotated[float, Field(json_schema_extra={"format": ELEMENT})]
Switch = Annotated[bool, Field(json_schema_extra={"format": ELEMENT})]
_POINT = re.compile(r"\s*\(?\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*\)?\s*")


class PagePoint(NamedTuple):
    """A place in the view of a page, in CSS pixels from its upper left corner."""

    x: float
    y: float


def point_of(text: str) -> PagePoint | None:
    """Return the place that `x,y` means; None for a reference."""
    match = _POINT.fullmatch(text)
    return PagePoint(float(match[1]), float(match[2])) if match else None


@lru_cache(maxsize=1000)
def host_of(url: str) -> str:
    """Return an address's host as the state shows it, with a port that is not the scheme's own; "" for none."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return host if port in (None, {"http": 80, "https": 443}[parts.scheme]) else f"{host}:{port}"


def same_site(site: str, url: str) -> None:
    here = host_of(url)
    if site.strip().lower() != here:
        raise ToolError(wrong_site(site, here))


def wrong_site(site: str, here: str) -> str:
    place = f"at {here}" if here else "at no host"
    return f"site is {site!r}, and this is {place}; look at the state and say site={here!r} if it may go there"
