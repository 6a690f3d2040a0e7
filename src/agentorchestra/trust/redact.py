"""Secrets never reach the log: their values are replaced by handles before anything is fingerprinted or written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentorchestra.core.effects import Effect, Outcome

_SHORTEST = 6  # shorter values would redact ordinary words


class Redactor:
    """Replaces the values of known secrets by `secret:NAME`."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        found = [(value, f"secret:{name}") for name, value in secrets.items() if len(value) >= _SHORTEST]
        # Longest first, so that a secret that contains another one is replaced whole.
        self._pairs = sorted(found, key=lambda pair: -len(pair[0]))

    def learn(self, name: str, value: str) -> None:
        """Take a value for a secret from here on."""
        pair = (value, f"secret:{name}")
        if len(value) >= _SHORTEST and pair not in self._pairs:
            self._pairs = sorted([*self._pairs, pair], key=lambda one: -len(one[0]))

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        for value, handle in self._pairs:
            if value in text:
                text = text.replace(value, handle)
        return text

    def json(self, value: Any) -> Any:
        """Return a JSON value without secrets, keys included."""
        return self._without(value) if self._pairs and self._hit(value) else value

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
        return any(secret in text or json.dumps(secret, ensure_ascii=False)[1:-1] in text for secret, _ in self._pairs)

    def effect(self, effect: Effect) -> Effect:
        """Return the effect with its arguments redacted. Messages hold only what was recorded, which already is."""
        if not self._pairs or not self._hit([effect.arguments, effect.invalid]):
            return effect
        invalid = None if effect.invalid is None else self.text(effect.invalid)
        return Effect.model_validate({**dict(effect), "arguments": self.json(effect.arguments), "invalid": invalid})

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return the outcome as it may be recorded and shown."""
        if not self._pairs or not self._hit([outcome.value, outcome.error, outcome.writes]):
            return outcome
        return outcome.model_copy(
            update={
                "value": self.json(outcome.value),
                "error": None if outcome.error is None else self.text(outcome.error),
                "writes": self.json(outcome.writes),
            }
        )
