"""What models are asked to reply in an analysis, as schemas."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.forms import Form, form, list_of

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_NUMBER: dict[str, Any] = {"type": "integer"}

KIND = form(("kind",), reason=_TEXT, kind={"type": "string", "enum": ["table", "text"]})

FINDINGS = form(
    ("findings", "answers"),
    findings=list_of(form(("quote", "piece", "fact"), quote=_TEXT, piece=_NUMBER, fact=_TEXT)),
    reason=_TEXT,
    answers=_FLAG,
    answer=_TEXT,
)

PROGRAM = form(("code",), plan=_TEXT, code=_TEXT)

_REGION: dict[str, Any] = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
LOOKED = form(("seen", "found"), seen=_TEXT, found=_FLAG, answer=_TEXT, regions={"type": "array", "items": _REGION})

CONCLUSION = form(("complete", "answer"), reason=_TEXT, complete=_FLAG, answer=_TEXT, missing=_TEXT)

ROUND = form(("go_on",), reason=_TEXT, missing=_TEXT, strategy=_TEXT, go_on=_FLAG)


def merged(output: dict[str, Any] | None) -> Form:
    """Of several models' answers in one; the answer in the form that the task asks for."""
    return form(("agreed", "answer"), disagreement=_TEXT, agreed=_FLAG, answer=output or _TEXT)


__all__ = ["CONCLUSION", "FINDINGS", "KIND", "LOOKED", "PROGRAM", "ROUND", "merged"]
