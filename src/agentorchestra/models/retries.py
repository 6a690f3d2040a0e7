"""How often, and how long, a request is tried again at one model."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from agentorchestra.core.errors import ModelError, ModelRateLimitError, ModelServerDownError
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.client import spent_by

MAX_WAIT_S = 60.0  # the longest pause that doubling comes to; a provider that asks for a longer one gets it
BEFORE_OTHERS = 3  # attempts at a model whose fallback waits: another one is there sooner than a server is up again
DOWN = 3  # attempts where nothing listens on this machine or nearby: somebody has to start the server
UNSURE = 3  # attempts that may have been paid and brought nothing: more of them are not risked


@dataclass
class RetryPolicy:
    """What one request has tried at one model."""

    attempts: int  # failures after which it gives up
    rate_limit_s: float  # seconds it waits in all for a rate limit (429), which is no failure
    backoff_s: float  # the first pause; it doubles with each, up to `MAX_WAIT_S`
    chance: random.Random  # for jitter, from the run's own generator
    down: int = DOWN  # attempts where nothing listens nearby
    _failed: int = field(default=0, init=False)
    _unsure: int = field(default=0, init=False)
    _limited: int = field(default=0, init=False)
    _waited: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, profile: ModelProfile, chance: random.Random, *, last: bool) -> RetryPolicy:
        """Return the policy of a model; `last` means that no fallback waits behind it."""
        attempts = profile.max_attempts if last else min(profile.max_attempts, BEFORE_OTHERS)
        patience_s = profile.rate_limit_s if last else min(profile.rate_limit_s, MAX_WAIT_S)
        down = attempts if "max_attempts" in profile.model_fields_set else min(attempts, DOWN)
        return cls(attempts, patience_s, profile.backoff_s, chance, down)

    def pause(self, error: ModelError) -> float | None:
        """Return the seconds until the next attempt after a failed one, None where there is none."""
        if not error.retryable:
            return None
        server_wait = None if error.retry_after_s is None else max(error.retry_after_s, 0.0)
        if isinstance(error, ModelRateLimitError):
            self._limited += 1
            wait = self._backoff(self._limited) if server_wait is None else server_wait
            if self._limited > BEFORE_OTHERS:
                wait = max(wait, self.backoff_s)  # so short a time as it names did not help
            self._waited += wait
            return wait if self._waited <= self.rate_limit_s else None
        self._failed += 1
        self._unsure += spent_by(error).uncertain
        most = self.down if isinstance(error, ModelServerDownError) else self.attempts
        if self._failed >= most or self._unsure >= UNSURE:
            return None
        wait = self._backoff(self._failed) if server_wait is None else server_wait
        return wait if wait <= max(self.rate_limit_s, MAX_WAIT_S) else None

    def _backoff(self, count: int) -> float:
        """Return a pause that doubles, with jitter: many agents that failed together do not come back together."""
        ceiling = min(self.backoff_s * 2.0 ** (count - 1), MAX_WAIT_S)
        return ceiling * (0.5 + self.chance.random() / 2)
