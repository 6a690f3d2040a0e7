"""What models are asked to reply in an analysis, as schemas."""

from __future__ import annotations

from typing import Any

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}


def _object(required: tuple[str, ...], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required]}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


KIND = _object(("kind",), kind={"type": "string", "enum": ["table", "text"]})

FINDINGS = _object(
    ("findings", "answers"),
    findings=_list(_object(("fact", "quote", "piece"), fact=_TEXT, quote=_TEXT, piece={"type": "integer"})),
    answers=_FLAG,
    answer=_TEXT,
)

PROGRAM = _object(("code",), code=_TEXT)

LOOKED = _object(
    ("found", "seen"),
    found=_FLAG,
    answer=_TEXT,
    seen=_TEXT,
    regions=_list({"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}),
)

CONCLUSION = _object(
    ("complete", "answer"), complete=_FLAG, answer=_TEXT, missing=_TEXT, marks=_list({"type": "string"})
)

ROUND = _object(("go_on",), go_on=_FLAG, missing=_TEXT, strategy=_TEXT)


def merged(output: dict[str, Any] | None) -> dict[str, Any]:
    """Of several models' answers in one; the answer in the form that the task asks for."""
    return _object(("answer", "agreed"), answer=output or _TEXT, agreed=_FLAG, disagreement=_TEXT)


__all__ = ["CONCLUSION", "FINDINGS", "KIND", "LOOKED", "PROGRAM", "ROUND", "merged"]
