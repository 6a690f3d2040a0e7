"""Usage by token class, budgets over the tree, and the bounds the door reserves."""

from __future__ import annotations

import math

from pydantic import BaseModel, field_validator


class Usage(BaseModel, frozen=True):
    """Requests, tokens and dollars that something cost.

    Attributes:
        requests: model requests answered.
        input_tokens: all input tokens, cache reads and writes included.
        cache_read_tokens: the part of the input read from the provider's cache.
        cache_write_tokens: the part of the input written to it.
        output_tokens: all output tokens, reasoning included.
        reasoning_tokens: the part of the output spent on reasoning, where the provider says.
        cost_usd: US dollars; None when a price is unknown (never zero for unknown).
        uncertain_tokens, uncertain_usd: what attempts may have cost at most that reached the provider and brought no
            answer (silence, a broken stream). They are in no other field; budgets count them as spent.
    """

    requests: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0
    uncertain_tokens: int = 0
    uncertain_usd: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=_sum(self.cost_usd, other.cost_usd),
            uncertain_tokens=self.uncertain_tokens + other.uncertain_tokens,
            uncertain_usd=_sum(self.uncertain_usd, other.uncertain_usd),
        )

    @property
    def tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def uncertain(self) -> bool:
        """True if it holds attempts of which nobody knows what they cost."""
        return self.uncertain_tokens > 0 or self.uncertain_usd != 0.0

    def charge(self, unknown_usd: float = 0.0) -> Bound:
        """Return what a budget counts: what was or may have been paid; `unknown_usd` for a cost without a price."""
        dollars = unknown_usd if self.cost_usd is None else self.cost_usd
        return Bound(tokens=self.tokens + self.uncertain_tokens, cost_usd=dollars + (self.uncertain_usd or 0.0))


def _sum(left: float | None, other: float | None) -> float | None:
    return None if left is None or other is None else round(left + other, 12)


class Budget(BaseModel, frozen=True):
    """Limits over a run's whole tree, or a ceiling carved out of them for one agent.

    Attributes:
        steps: decisions (a model request whose purpose is a decision costs one).
        tokens: input plus output tokens.
        cost_usd: US dollars.
        active_s: seconds the run is driven, not the time it waits.
    None means no limit.
    """

    steps: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    active_s: float | None = None

    @field_validator("steps", "tokens", "cost_usd", "active_s")
    @classmethod
    def _positive(cls, value: float | None) -> float | None:
        if value is not None and (not math.isfinite(value) or value <= 0):
            raise ValueError(f"a budget's limit is {value}; give a positive number, or leave it out for no limit")
        return value


class Bound(BaseModel, frozen=True):
    """The most an effect can cost; held while it runs, settled with what it did cost."""

    steps: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    active_s: float = 0.0

    def __add__(self, other: Bound) -> Bound:
        return Bound(
            steps=self.steps + other.steps,
            tokens=self.tokens + other.tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            active_s=self.active_s + other.active_s,
        )


class Room(BaseModel, frozen=True):
    """The rest of the budgets for one effect; infinite where nothing limits it.

    Neither spent nor kept for a last answer; `free_...`: what of it no other effect holds.
    """

    tokens: float = math.inf
    cost_usd: float = math.inf
    free_tokens: float = math.inf
    free_usd: float = math.inf


NO_COST = Bound()
NO_USAGE = Usage()
