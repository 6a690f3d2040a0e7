from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentorchestra.core.budget import Bound
from agentorchestra.core.effects import Effect, Mode, Outcome
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.protocols import Handler


class CodeHandler:
    """Executes RunCode by the interpreter (a handler, by its component's name) that the effect names."""

    def __init__(self, interpreters: Mapping[str, Handler]) -> None:
        self._interpreters = dict(interpreters)

    def _of(self, effect: Effect) -> Handler:
        interpreter = self._interpreters.get(effect.name)
        if interpreter is None:
            names = ", ".join(sorted(self._interpreters)) or "none"
            raise UnknownComponentError(f"there is no interpreter {effect.name!r} here; the interpreters: {names}")
        return interpreter

    def mode(self, effect: Effect) -> Mode:
        return self._of(effect).mode(effect)

    def bound(self, effect: Effect) -> Bound:
        return self._of(effect).bound(effect)

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        return await self._of(effect).execute(effect, ctx)
