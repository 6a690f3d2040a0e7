"""Secrets never reach the log: their values are replaced by handles before anything is fingerprinted or written.

A value is found as it is and in the encodings that programs put it into: URL, JSON, hex and base64, at each of the
three places that it can have in a group of base64 (so also in the header of basic authentication, behind the user).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

from agentorchestra.core.effects import Effect, Outcome

_SHORTEST = 6  # shorter values would redact ordinary words
_ESCAPED = re.compile("%[0-9A-F]{2}")


@dataclass(frozen=True)
class _Form:
    """One spelling of a secret."""

    text: str
    handle: str
    before: str = ""  # pattern of what the secret shares a character with, on its left
    after: str = ""  # the same on its right

    def without(self, text: str) -> str:
        if not (self.before or self.after):
            return text.replace(self.text, self.handle)
        return re.sub(self.before + re.escape(self.text) + self.after, lambda _: self.handle, text)


def _forms(name: str, value: str) -> list[_Form]:
    """Return a secret as it is and encoded; none of a value that is too short."""
    if len(value) < _SHORTEST:
        return []
    handle = f"secret:{name}"
    data = value.encode("utf-8", "surrogatepass")
    plain = {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        data.hex(),
        data.hex().upper(),
    }
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        plain |= {quoted, _ESCAPED.sub(lambda one: one[0].lower(), quoted)}
    forms = [_Form(text, handle) for text in plain]
    for offset in range(3):
        # Characters that stand for bits of the secret alone; those beside them also hold bits of what is next to it.
        start, end = -(-8 * offset // 6), (8 * offset + 8 * len(data)) // 6
        whole = b64encode(bytes(offset) + data + bytes(2)).decode()[start:end]
        before = "[A-Za-z0-9+/_-]?" if 8 * offset % 6 else ""
        after = ("[A-Za-z0-9+/_-]?" if (8 * offset + 8 * len(data)) % 6 else "") + "={0,2}"
        forms += [_Form(one, handle, before, after) for one in {whole, whole.translate(_URLSAFE)}]
    return forms


_URLSAFE = str.maketrans("+/", "-_")


class Redactor:
    """Replaces the values of known secrets, also encoded ones, by `secret:NAME`."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._known = set(secrets.items())
        self._forms: list[_Form] = []
        self._needles: tuple[str, ...] = ()
        self._take([form for name, value in secrets.items() for form in _forms(name, value)])

    def _take(self, forms: list[_Form]) -> None:
        # Longest first, so that a secret that contains another one is replaced whole.
        self._forms = sorted([*self._forms, *forms], key=lambda form: -len(form.text))
        texts = {form.text for form in self._forms}
        self._needles = tuple(texts | {json.dumps(text, ensure_ascii=False)[1:-1] for text in texts})

    def learn(self, name: str, value: str) -> None:
        """Take a value for a secret from here on."""
        if (name, value) not in self._known:
            self._known.add((name, value))
            self._take(_forms(name, value))

    def text(self, text: str) -> str:
        for form in self._forms:
            if form.text in text:
                text = form.without(text)
        return text

    def json(self, value: Any) -> Any:
        """Return a JSON value without secrets, keys included."""
        return self._without(value) if self._forms and self._hit(value) else value

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self._without(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._without(item) for item in value]
        return value

    def _hit(self, value: Any) -> bool:
        text = json.dumps(value, ensure_ascii=False, default=str)
        # One search after another is faster than a pattern of all of them, by a factor of two to ten.
        return any(needle in text for needle in self._needles)

    def effect(self, effect: Effect) -> Effect:
        """Return the effect with its arguments redacted. Messages hold only what was recorded, which already is."""
        if not self._forms or not self._hit([effect.arguments, effect.invalid]):
            return effect
        invalid = None if effect.invalid is None else self.text(effect.invalid)
        return Effect.model_validate({**dict(effect), "arguments": self.json(effect.arguments), "invalid": invalid})

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return the outcome as it may be recorded and shown."""
        if not self._forms or not self._hit([outcome.value, outcome.error, outcome.writes]):
            return outcome
        return outcome.model_copy(
            update={
                "value": self.json(outcome.value),
                "error": None if outcome.error is None else self.text(outcome.error),
                "writes": self.json(outcome.writes),
            }
        )
