"""How long an answer may be: the model's limit, the window's rest, and what the budget affords (docs/door.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentorchestra.core.budget import Bound, Room
from agentorchestra.core.messages import ModelRequest
from agentorchestra.models.client import ModelClient
from agentorchestra.models.limits import LEAST, USUAL, answer_tokens
from agentorchestra.models.prices import bound_of, estimate_input_tokens

SHARE = 0.25
"""Part of what is free that one request takes for an answer longer than usual: others may be under way beside it."""


@dataclass(frozen=True)
class Allowance:
    """The answers that a model and its fallbacks could give to a request."""

    clients: tuple[tuple[ModelClient, int, int], ...]  # each with the tokens of the prompt and of its longest answer
    purpose: str  # of the request
    most: int  # tokens of the longest answer any of them gives

    @classmethod
    def of(cls, request: ModelRequest, clients: Sequence[ModelClient], *, purpose: str) -> Allowance:
        """Return what a request can come to, whichever of the clients answers."""
        whole = estimate_input_tokens(request)
        rows = []
        for client in clients:
            window = client.profile.context_window
            prompt = estimate_input_tokens(request, context_window=window) if whole > window else whole
            most = answer_tokens(request, client.profile, prompt=prompt, stands_in=client is not clients[0])
            rows.append((client, prompt, most))
        return cls(tuple(rows), purpose, max(most for _, _, most in rows))

    def bound(self, tokens: int) -> Bound:
        """Return what is held for an answer of so many tokens: whoever answers at last, the dearest of them."""
        bounds = [
            bound_of(prompt, min(tokens, most), price=client.price, purpose=self.purpose)
            for client, prompt, most in self.clients
        ]
        if len(bounds) == 1:
            return bounds[0]
        dearest = max(bound.cost_usd for bound in bounds)
        return bounds[0].model_copy(update={"cost_usd": dearest, "tokens": max(bound.tokens for bound in bounds)})

    def affordable(self, demand: int, room: Callable[[Bound], Room]) -> tuple[int, int]:
        """Return tokens for an answer that needs so many, and those kept for the last; `room` says what is left."""
        usual, reserve = min(self.most, demand), min(self.most, USUAL)
        left = room(self.bound(reserve))
        if left == Room():
            return self.most, reserve
        base = self.bound(0)
        shared = self._within(_part(base.tokens, left.free_tokens), _part(base.cost_usd, left.free_usd))
        if shared >= usual:
            return shared, reserve
        # It is no more than every request needs: it may queue behind others, and be shorter than it should be.
        fits = min(usual, self._within(left.tokens, left.cost_usd))
        return (fits if fits >= min(usual, LEAST) else usual), reserve

    def _within(self, tokens: float, dollars: float) -> int:
        if self._fits(self.most, tokens, dollars):
            return self.most
        low, high = 0, self.most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(middle, tokens, dollars) else (low, middle)
        return low

    def _fits(self, answer: int, tokens: float, dollars: float) -> bool:
        bound = self.bound(answer)
        return bound.tokens <= tokens and bound.cost_usd <= dollars


def _part(prompt: float, free: float) -> float:
    """Return what a long answer may take with its prompt."""
    return math.inf if math.isinf(free) else prompt + SHARE * (free - prompt)
