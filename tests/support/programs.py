"""Decisions that are programs, and what came of them."""

from __future__ import annotations

from agentorchestra.core.content import TextBlock
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import say


def program(code: str, memory: str = "") -> ModelResponse:
    """A decision as a model writes it."""
    return say(f'{{"thinking": "t", "memory": "{memory}", "next_goal": "g"}}\n```python\n{code}\n```')


def printed(request: ModelRequest) -> str:
    """What the last program printed, and its error."""
    shown = request.messages[-2]
    assert shown.role == "user" and shown.text.startswith("Result of program"), shown.text
    return "\n".join(block.text for block in shown.content[1:] if isinstance(block, TextBlock))


def effects(events: list[Event]) -> dict[str, str]:
    """Key -> component of what has an outcome."""
    named = {e.span: e.body["effect"] for e in events if e.span and e.body.get("effect")}
    over = [e.span for e in events if e.type == "completed" and e.span]
    return {key: named[key]["component"].partition("@")[0] for key in over}
