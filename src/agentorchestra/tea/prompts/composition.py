"""How the text of a prompt is put together: modules that other prompts are, and parts that may be rewritten.

    ---
    name: researcher
    version: 1.0.0
    variables: [task]
    trainable: [rules]
    ---
    {% include "house_style" %}
    <rules>
    {# part: rules #}
    - Say where you found it.
    {# end #}
    </rules>

An include stands for the body of the prompt of that name, put in when the prompt is loaded: the composed text is whole,
so it can be kept, pinned and moved, and its hash changes with each of its modules. The marks of parts are comments:
nothing of them is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from agentorchestra.core.errors import PromptError

_INCLUDE = re.compile(
    r"""(?P<line>^[ \t]*)?\{%[-+]?\s*include\s+["'](?P<name>[^"'{}%]*)["']\s*[-+]?%\}(?P<end>[ \t]*(?:\n|\Z))?""",
    re.MULTILINE,
)
# Bounded everywhere: a line without an end must not be tried in a thousand ways.
_MARK = re.compile(
    r"^[ \t]{0,99}\{#-?[ \t]{0,9}(?:part:(?P<part>[^#\n]{0,99})|(?P<end>end)[ \t]{0,9}-?)#\}[ \t]{0,99}\n?",
    re.MULTILINE,
)
_PART = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")

LONGEST = 1_000_000  # characters of a composed prompt


class _Body(Protocol):
    @property
    def template(self) -> str: ...


B = TypeVar("B", bound=_Body)


def expand(template: str, modules: Callable[[str], B] | None, *, label: str) -> tuple[str, tuple[B, ...]]:
    """Return a template with its includes replaced, and what was put in, each once, in order, or raise PromptError."""
    by_name: dict[str, B] = {}
    left = LONGEST - len(template)

    def put(match: re.Match[str]) -> str:
        name = match["name"]
        if modules is None:
            raise PromptError(
                f"{label} includes {name!r}, and no other prompts are at hand here; put its text in its place, as "
                "`text` of a loaded prompt has it"
            )
        module = by_name[name] = modules(name)
        body = module.template.strip("\n")
        nonlocal left
        left -= len(body)
        if left < 0:
            raise PromptError(f"{label} has more than {LONGEST:,} characters with its modules; include less")
        alone = match["line"] is not None and match["end"] is not None
        return f"{body}\n" if alone else f"{match['line'] or ''}{body}{match['end'] or ''}"

    if left < 0:
        raise PromptError(f"{label} has {len(template):,} characters; at most {LONGEST:,} are allowed")
    return _INCLUDE.sub(put, template), tuple(by_name.values())


def parts_of(template: str, trainable: Iterable[str], *, label: str) -> dict[str, str]:
    """Return the text of each trainable part by name; raise PromptError for wrong marks or a missing part."""
    spans = _spans(template, label)
    names = list(trainable)
    for name in names:
        if name not in spans:
            marks = ", ".join(spans) or "none"
            raise PromptError(
                f"{label} has no part {name!r} (its parts: {marks}); mark it with {{# part: {name} #}} and {{# end #}}"
            )
    return {name: template[slice(*spans[name])] for name in names}


def with_parts(template: str, parts: Mapping[str, str], *, label: str) -> str:
    """Return a template with other texts for some parts; raise PromptError for texts that hold marks or includes."""
    for name, text in parts.items():
        spans = _spans(template, label)
        if name not in spans:
            raise PromptError(f"{label} has no part {name!r}; its parts: {', '.join(spans) or 'none'}")
        if _MARK.search(text) or _INCLUDE.search(text):
            raise PromptError(f"the text for the part {name!r} of {label} holds marks of parts or includes")
        start, end = spans[name]
        body = text.strip("\n")
        template = template[:start] + (f"{body}\n" if body else "") + template[end:]
    return template


def _spans(template: str, label: str) -> dict[str, tuple[int, int]]:
    spans: dict[str, tuple[int, int]] = {}
    open_: tuple[str, int] | None = None
    for match in _MARK.finditer(template):
        line = template.count("\n", 0, match.start()) + 1
        if match["end"]:
            if open_ is None:
                raise PromptError(f"{label} ends a part that it did not begin (line {line} of its template)")
            spans[open_[0]] = (open_[1], match.start())
            open_ = None
            continue
        name = match["part"].strip().removesuffix("-").strip()
        if not _PART.fullmatch(name):
            raise PromptError(f"{label} has a part named {name!r}; use letters, digits, '_' and '-'")
        if open_ is not None or name in spans:
            place = "inside another part" if open_ is not None else "twice"
            raise PromptError(
                f"{label} has the part {name!r} {place} (line {line} of its template); "
                "parts have names of their own and stand apart"
            )
        open_ = name, match.end()
    if open_ is not None:
        raise PromptError(f"{label} does not end its part {open_[0]!r}; write {{# end #}} behind it")
    return spans
