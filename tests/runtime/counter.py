"""An environment for tests: a counter with a history, with or without snapshots."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import JsonValue

from agentorchestra.core.content import Block, Source, TextBlock
from agentorchestra.core.messages import ToolSchema


class Counter:
    """Counts; remembers how often it acted in this process."""

    name = "counter"
    version = "1.0.0"
    content_hash = "c"
    durable = False

    def __init__(self, branching: Literal["stateless", "snapshot", "none"] = "snapshot") -> None:
        self.branching: Literal["stateless", "snapshot", "none"] = branching
        self.value = 0
        self.acted = 0
        self.opened = False

    def actions(self) -> tuple[ToolSchema, ...]:
        """`add` changes, `look` does not."""
        number = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}
        return (
            ToolSchema(name="add", description="Add a number.", parameters=number),
            ToolSchema(name="look", description="The value.", parameters={"type": "object", "properties": {}}),
        )

    def mutates(self, action: str) -> bool:
        """Only `add`."""
        return action == "add"

    def rules(self) -> str:
        """For the prompt."""
        return "State: a number. Interaction: add to it."

    async def open(self, ctx: Any) -> None:
        """Nothing to start."""
        self.opened = True

    async def close(self) -> None:
        """Nothing to end."""
        self.opened = False

    async def act(self, action: str, arguments: dict[str, JsonValue], ctx: Any) -> Any:
        """Count."""
        assert self.opened
        if action == "add":
            by = arguments["by"]
            assert isinstance(by, int)
            self.acted += 1
            self.value += by
        return self.value

    async def state(self) -> tuple[Block, ...]:
        """The value."""
        return (TextBlock(text=f"value {self.value}", source=Source(kind="environment", ref="counter")),)

    async def snapshot(self) -> bytes:
        """The value as bytes."""
        return json.dumps(self.value).encode()

    async def restore(self, data: bytes) -> None:
        """The value of a snapshot."""
        self.value = json.loads(data)
