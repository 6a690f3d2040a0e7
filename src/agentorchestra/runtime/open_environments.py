"""Environments that are open in a run: one by itself, or several that share a ground."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, cast

from agentorchestra.core.protocols import Environment, Ground, Grounded, RunContext

CHANGED = "acted"  # in place of a snapshot: the instance was changed, and nothing holds how it stands
Place = tuple[str, str]  # a world and the name of an instance in it


@dataclass
class OpenEnvironment:
    """An open instance, of one environment or of all that share a ground."""

    keeper: Environment | Ground  # whose state it is: the environment itself, or the ground
    members: dict[str, Environment] = field(default_factory=dict)  # by name; on a ground, all that were used so far
    ref: str | None = None  # the snapshot it stands at; None for a new one
    content: bytes | None = None  # that snapshot, where it was taken here
    past: set[str] = field(default_factory=set)  # the snapshots it stood at since it was opened, that one too

    @property
    def alone(self) -> bool:
        """Return True for one environment, False for several on a ground."""
        return any(member is self.keeper for member in self.members.values())

    def stands_at(self, ref: str | None, content: bytes | None = None) -> None:
        """Note the snapshot that it stands at from here on, and its bytes where they are at hand."""
        self.ref, self.content = ref, content
        if ref is not None:
            self.past.add(ref)

    async def join(self, environment: Environment, ctx: RunContext[Any]) -> None:
        on_ground = as_grounded(environment)
        assert on_ground is not None
        on_ground.stand_on(cast(Ground, self.keeper))
        try:
            await environment.open(ctx)
        except BaseException:
            await environment.close()
            raise
        self.members[environment.name] = environment

    async def close(self) -> None:
        """Close what is open, the ground last; one that fails does not keep the others open."""
        alone = self.alone
        for member in [*self.members.values()]:
            with contextlib.suppress(Exception):
                await member.close()
        if not alone:
            with contextlib.suppress(Exception):
                await self.keeper.close()
        self.members.clear()


def as_grounded(environment: Any) -> Grounded | None:
    """Return an environment as one that shares a ground; None if it does not."""
    return environment if isinstance(environment, Grounded) and environment.ground else None


async def open_at(
    environment: Environment, ref: str | None, data: bytes | None, ctx: RunContext[Any]
) -> OpenEnvironment:
    """Open a new environment in the state of its world; what it shares with others is opened first.

    `ref` is the snapshot (None for a new instance, CHANGED for one whose state nothing holds), `data` its bytes.
    """
    on_ground = as_grounded(environment)
    if on_ground is not None:
        ground = await on_ground.lay(ctx)
        live = OpenEnvironment(ground)
        if ref != CHANGED:  # what another process may have left on disk is not where the run stands
            await ground.restore(data)
            live.stands_at(ref)
        await live.join(environment, ctx)
        return live
    await environment.open(ctx)
    live = OpenEnvironment(environment, {environment.name: environment})
    if data is not None:
        await environment.restore(data)
        live.stands_at(ref)
    return live
