"""T2E: tools as an environment with one shared state and rules of when what may be done.

    python examples/transformations/t2e.py

Three tools of a programmer share `ctx.vars["code"]` and `ctx.vars["built"]`. As an environment they may only be used in
an order that makes sense, its state is shown to whoever acts, and a snapshot follows each action. No key is needed: the
model is `offline`, which makes the calls that a task spells out.
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from agentorchestra import RunContext, ToolError, Workspace, t2e, tool
from agentorchestra.tea.transformations.t2e import Rule


@tool(effect="pure")
def edit(ctx: RunContext[Any], code: str) -> str:
    """Replace the program."""
    ctx.vars["code"] = code
    ctx.vars["built"] = ""
    return f"{len(code)} characters"


@tool(effect="pure")
def build(ctx: RunContext[Any]) -> str:
    """Check the program and make it runnable."""
    code = str(ctx.vars["code"])
    try:
        compile(code, "program", "eval")
    except SyntaxError as exc:
        raise ToolError(f"line {exc.lineno}: {exc.msg}") from None
    ctx.vars["built"] = code
    return "built"


@tool(effect="pure")
def ship(ctx: RunContext[Any]) -> str:
    """Hand over what was built."""
    return f"shipped: {ctx.vars['built']}"


WORKSHOP = t2e(
    [edit, build, ship],
    name="workshop",
    description="A place to write one small program.",
    state={"code": "", "built": ""},
    rules={
        "build": Rule("there is code", lambda state: bool(state["code"])),
        "ship": Rule("the code as it stands was built", lambda state: bool(state["built"])),
    },
)

TASKS = (
    'workshop_edit(code="1 + 1"), then workshop_ship()',
    'workshop_edit(code="1 +"), then workshop_build()',
    'workshop_edit(code="1 + 1"), then workshop_build(), then workshop_ship()',
)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace(folder, environments={"workshop": WORKSHOP}) as ws:
            for task in TASKS:
                result = await ws.run(task, system="react", model="offline")
                print(f"{task}\n  -> {result.status}: {result.answer_text}")


if __name__ == "__main__":
    asyncio.run(main())
