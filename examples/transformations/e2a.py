"""E2A, and A2E after it: an environment that plays against whoever acts in it.

    python examples/transformations/e2a.py

Nim is an environment: matches lie on a table, who takes the last one wins. `e2a` gives it a will of its own: it keeps
the rules (what they do not allow is refused before any model is asked) and takes its own turn. `a2e` lets others act in
it again. No key is needed: a function stands in for the model. It plays from the state it is shown, and nothing else.
"""

from __future__ import annotations

import asyncio
import re
import tempfile

from agentorchestra import ActionEnvironment, Condition, Workspace, a2e, action, compose, e2a
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide


class Nim(ActionEnvironment):
    """Matches lie on the table. A turn takes 1 to 3 of them; who takes the last one wins."""

    name = "nim"

    def __init__(self) -> None:
        self.left = 10

    @action(
        before=[
            Condition("a turn takes 1 to 3 matches", lambda self, given: 1 <= given["count"] <= 3),
            Condition("so many are left", lambda self, given: given["count"] <= self.left),
        ],
        after=[Condition("the result says what is left", lambda self, given, left: left == self.left)],
    )
    def take(self, count: int) -> int:
        """Take matches; how many are left.

        Args:
            count: how many.
        """
        self.left -= count
        return self.left


TABLE = compose(e2a.using(name="opponent", objectives=("to take the last match",)), a2e.using(name="table"))(Nim)
MOVES = [9, 2, 1, 3]
"""What the player tries; the first one is against the rules."""


def model(request: ModelRequest) -> ModelResponse:
    """The opponent leaves a multiple of four where it can; the player makes its moves until the game is over."""
    text = "\n".join(one.text for one in request.messages)
    results = [one.text for one in request.messages if one.role == "tool"]
    if "You act for an environment" in request.messages[0].text:
        left = int(re.findall(r"left: (\d+)", text)[-1])
        if left == 0 or results:
            won = "you" if not results else "I" if left == 0 else "nobody yet"
            return decide(calls=[call("done", answer=f"{left} left, winner: {won}")])
        return decide(calls=[call("nim_take", count=left % 4 or 1)])
    if len(results) < len(MOVES) and not (results and "winner: I" in results[-1]):
        return decide(calls=[call("table_take", count=MOVES[len(results)])])
    return decide(calls=[call("done", answer="\n".join(results))])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace(folder, environments={"table": TABLE}) as ws:
            result = await ws.run("Play.", system="react", model=ScriptedModel(model))
            print(result.answer_text)


if __name__ == "__main__":
    asyncio.run(main())
