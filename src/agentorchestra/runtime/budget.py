"""Budgets over the tree of agents: reserve a bound before an effect, settle with what it cost.

Every agent has a node; a carve is a node with limits of its own, and each reservation is held against the whole chain
of parents. A decision must leave room for one more request of its agent (the final reserve), so that the last answer
can always be afforded.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agentorchestra.core.budget import NO_COST, NO_USAGE, Bound, Budget, Room, Usage
from agentorchestra.core.errors import BudgetExhaustedError

_RESOURCES = ("steps", "tokens", "cost_usd", "active_s")
_UNITS = {"steps": "steps", "tokens": "tokens", "cost_usd": "US dollars", "active_s": "active seconds"}
_OPTIONS = {
    "steps": "Budget(steps=...)",
    "tokens": "Budget(tokens=...)",
    "cost_usd": "--budget-usd",
    "active_s": "--timeout-s",
}


_LEAST = {"steps": 1, "tokens": 1, "cost_usd": 1e-9}
"""The smallest part of a budget that one of several branches has: a limit is positive."""


class BudgetShort(Exception):
    """The limits do not cover an effect: `soft` when only the final reserve is in the way."""

    def __init__(self, message: str, *, node: BudgetNode, resource: str, soft: bool) -> None:
        super().__init__(message)
        self.node = node
        self.resource = resource
        self.soft = soft


class BudgetNode:
    """The limits, spending and holds of one agent's subtree; `costs` is what the log says of the branch `scope`.

    `active` gives the seconds of active time counted against this node; one without it takes no part in time.
    """

    def __init__(
        self,
        scope: str,
        limits: Budget,
        parent: BudgetNode | None = None,
        *,
        costs: Bound | None = None,
        active: Callable[[], float] | None = None,
    ) -> None:
        self.scope = scope
        self.limits = limits
        self.parent = parent
        self.spent = costs or Bound()
        self.held = Bound()
        self.final_reserve = Bound()
        self._active = active
        self._changed: asyncio.Event = parent._changed if parent is not None else asyncio.Event()

    def chain(self) -> Iterator[BudgetNode]:
        """Yield this node and its parents, innermost first."""
        node: BudgetNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def _reserves(self) -> tuple[BudgetNode, ...]:
        """Return the nodes whose final reserve is this agent's: its own, and for the top agent the root's."""
        top = self.parent is not None and self.parent.parent is None
        return (self, self.parent) if top and self.parent is not None else (self,)

    def _used(self, resource: str) -> float:
        if resource == "active_s":
            return self._active() if self._active is not None else 0.0
        return float(getattr(self.spent, resource))

    def _check(self, bound: Bound, *, final: bool, decision: bool) -> bool:
        """Return True if the bound fits now, False if only holds are in the way; BudgetShort if it cannot fit."""
        fits = True
        reserves = self._reserves()
        for node in self.chain():
            for resource in _RESOURCES:
                limit = getattr(node.limits, resource)
                if limit is None:
                    continue
                used = node._used(resource)
                own = float(getattr(bound, resource))
                # The final reserve of another agent is never this one's to spend.
                reserve = 0.0 if final and node in reserves else float(getattr(node.final_reserve, resource))
                # Only decisions start by the clock: a call that is already decided runs until the limit itself.
                if own <= 0 and not (resource == "active_s" and (decision or final)):
                    continue
                if used + own + reserve > limit + 1e-12 or (resource == "active_s" and used >= limit):
                    hard = used + own > limit + 1e-12 or (resource == "active_s" and used >= limit)
                    raise BudgetShort(
                        node._sentence(resource, used, own, limit), node=node, resource=resource, soft=not hard
                    )
                if used + float(getattr(node.held, resource)) + own + reserve > limit + 1e-12:
                    fits = False
        return fits

    def _sentence(self, resource: str, used: float, own: float, limit: float) -> str:
        owner = "the run's budget" if self.parent is None else f"the budget of {self.scope}"
        return (
            f"{owner} of {limit:g} {_UNITS[resource]} does not cover the next effect "
            f"({used:.6g} spent, up to {own:.6g} more needed); raise it with {_OPTIONS[resource]} and resume"
        )

    def room(self, keep: Bound | None = None, *, final: bool = False) -> Room:
        """Return what this node and its parents leave for one effect, in tokens and dollars.

        `keep` is what is to be kept for this agent's last answer (`final`), None for what is kept already.
        """
        reserves = self._reserves()
        left = {"tokens": math.inf, "cost_usd": math.inf}
        free = dict(left)
        for node in self.chain():
            reserve = keep if keep is not None and node in reserves else node.final_reserve
            for resource in left:
                limit = getattr(node.limits, resource)
                if limit is None:
                    continue
                share = 0.0 if final and node in reserves else float(getattr(reserve, resource))
                rest = max(0.0, limit - node._used(resource) - share)
                left[resource] = min(left[resource], rest)
                free[resource] = min(free[resource], max(0.0, rest - float(getattr(node.held, resource))))
        return Room(
            tokens=left["tokens"], cost_usd=left["cost_usd"], free_tokens=free["tokens"], free_usd=free["cost_usd"]
        )

    def shares(self, scopes: Sequence[str], cost_of: Callable[[str], Bound]) -> list[BudgetNode]:
        """Return a node for each scope, with equal parts of what this node and its parents leave them.

        Args:
            scopes: branches that work at the same time, so each has all of the active time.
            cost_of: what a branch has spent already, as the log says.
        """
        costs = [cost_of(scope) for scope in scopes]
        parts: dict[str, float] = {}
        for node in self.chain():
            for resource in ("steps", "tokens", "cost_usd"):
                limit = getattr(node.limits, resource)
                if limit is not None:
                    left = limit - node._used(resource) + sum(float(getattr(cost, resource)) for cost in costs)
                    part = left / len(scopes) if resource == "cost_usd" else left // len(scopes)
                    parts[resource] = min(parts.get(resource, math.inf), max(part, _LEAST[resource]))
        limits = Budget(**parts)  # type: ignore[arg-type]
        return [BudgetNode(scope, limits, self, costs=cost) for scope, cost in zip(scopes, costs, strict=True)]

    def lend(self, ways: int) -> tuple[Budget, Hold] | None:
        """Hold a part of what is free for work elsewhere; return it as limits, None where not enough is left.

        Of this node's own limits it is all that is left, of each parent's one of so many `ways`.
        """
        parts: dict[str, Any] = {}
        for node in self.chain():
            for resource in _RESOURCES:
                limit = getattr(node.limits, resource)
                if limit is None:
                    continue
                taken_up = float(getattr(node.held, resource)) + float(getattr(node.final_reserve, resource))
                part = limit - node._used(resource) - taken_up
                if resource != "active_s":  # time runs for all of them at once
                    part /= 1 if node is self else ways
                if resource in ("steps", "tokens"):
                    part = math.floor(part)
                parts[resource] = min(parts.get(resource, math.inf), part)
        if any(part < _LEAST.get(resource, 1e-9) for resource, part in parts.items()):
            return None
        limits = Budget(**parts)
        return limits, self.hold(limits)

    def hold(self, limits: Budget) -> Hold:
        bound = Bound(steps=limits.steps or 0, tokens=limits.tokens or 0, cost_usd=limits.cost_usd or 0.0)
        for node in self.chain():
            node.held = node.held + bound
        return Hold(self, bound)

    async def reserve(
        self, bound: Bound, *, final: bool = False, decision: bool = False, keep: Bound | None = None
    ) -> Hold:
        """Hold a bound against this node and its parents; waits while only other holds are in the way.

        The `final` answer may use this agent's own final reserve. A `decision` keeps room for one further request,
        which needs `keep`, or as much as this one. BudgetShort if spent plus the bound exceeds a limit.
        """
        if decision and not final:
            for node in self._reserves():
                node.final_reserve = bound if keep is None else keep
        if bound is NO_COST and not decision and not final:
            return Hold(self, bound)  # there is nothing to hold: most tool calls
        while not self._check(bound, final=final, decision=decision):
            self._changed.clear()
            await self._changed.wait()
        hold = Hold(self, bound)
        for node in self.chain():
            node.held = node.held + bound
        return hold

    def notify(self) -> None:
        self._changed.set()


class Hold:
    """A reservation; settle or release it exactly once."""

    __slots__ = ("_bound", "_node", "_open")

    def __init__(self, node: BudgetNode, bound: Bound) -> None:
        self._node = node
        self._bound = bound
        self._open = True

    def settle(self, usage: Usage, *, steps: int = 0) -> None:
        """Replace the hold by what it cost. An unknown cost counts with the bound's dollars."""
        if usage is NO_USAGE and not steps and self._bound is NO_COST:
            self._open = False
            return
        self._close(usage.charge(self._bound.cost_usd) + Bound(steps=steps))

    def affords(self, usage: Usage) -> bool:
        """Return True if the limits have room for a further attempt after one that cost so much."""
        more = usage.charge() + self._bound
        for node in self._node.chain():
            for resource in ("tokens", "cost_usd"):
                limit = getattr(node.limits, resource)
                if limit is not None and node._used(resource) + float(getattr(more, resource)) > limit + 1e-12:
                    return False
        return True

    def charge(self, usage: Usage) -> None:
        """Count what a failed attempt cost, or may have cost; the hold stays for the next one."""
        cost = usage.charge()
        if cost != NO_COST:
            for node in self._node.chain():
                node.spent = node.spent + cost

    def keep(self) -> None:
        """Count the bound as spent: the attempt may have been paid."""
        self._close(self._bound)

    def release(self) -> None:
        """Give the hold back: nothing was spent."""
        self._close(Bound())

    def _close(self, cost: Bound) -> None:
        if not self._open:
            return
        self._open = False
        if self._bound is NO_COST and cost == NO_COST:
            return
        for node in self._node.chain():
            node.spent = node.spent + cost
            holds = node.held
            node.held = Bound(
                steps=max(0, holds.steps - self._bound.steps),
                tokens=max(0, holds.tokens - self._bound.tokens),
                cost_usd=max(0.0, holds.cost_usd - self._bound.cost_usd),
                active_s=max(0.0, holds.active_s - self._bound.active_s),
            )
        self._node.notify()


def budget_error(short: BudgetShort) -> BudgetExhaustedError:
    return BudgetExhaustedError(str(short), resource=short.resource, scope=short.node.scope)
