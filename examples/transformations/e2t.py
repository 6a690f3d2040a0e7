"""E2T: the actions of an environment as tools that share its state, with conditions that are checked.

    python examples/transformations/e2t.py

A parcel locker is an environment. `e2t` gives its actions as tools, which any agent may hold like any other tool: one
instance belongs to the run, so what `locker_unlock` did `locker_take` sees. No key is needed: the model is `offline`,
which makes the calls that a task spells out.
"""

from __future__ import annotations

import asyncio
import tempfile

from agentorchestra import ActionEnvironment, Condition, Workspace, action, e2t


class Locker(ActionEnvironment):
    """A parcel locker. It opens with its code; a parcel can be taken once."""

    name = "locker"

    def __init__(self) -> None:
        self.is_open = False
        self.parcels = ["books"]

    @action(
        after=[Condition("the door is open if the code was right", lambda self, given, right: self.is_open == right)]
    )
    def unlock(self, code: int) -> bool:
        """Try a code.

        Args:
            code: four digits.
        """
        self.is_open = code == 4711
        return self.is_open

    @action(before=[Condition("the door is open", lambda self, given: self.is_open)])
    def take(self, parcel: str) -> list[str]:
        """Take a parcel out; what is left.

        Args:
            parcel: what it is.
        """
        self.parcels.remove(parcel)
        return self.parcels


TASKS = (
    'locker_take(parcel="books")',
    'locker_unlock(code=4711), then locker_take(parcel="books"), then locker_state()',
)


async def main() -> None:
    tools = e2t(Locker)
    for one in tools:
        print(f"{one.name}: {' '.join(one.description.split())}")
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace(folder, tools=tools) as ws:
            for task in TASKS:
                result = await ws.run(task, system="react", model="offline")
                print(f"{task}\n  -> {result.status}: {result.answer_text}")


if __name__ == "__main__":
    asyncio.run(main())
