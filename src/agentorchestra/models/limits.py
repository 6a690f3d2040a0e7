"""The longest answer of a model: its profile's, the published one, or what is asked of a model nobody knows."""

from __future__ import annotations

from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.prices import estimate_input_tokens

USUAL = 4_096
"""Tokens that an answer usually needs: room for so many is held for every request, more only where there is plenty."""

LEAST = 1_024  # tokens with which asking for a decision is worth it: with less, the agent gives its last answer instead
UNKNOWN = 16_384
"""Asked of a model whose limit nobody knows; one that refuses so many is asked for fewer (models/adapter.py)."""

SHORTEST = 16  # asked for where the window leaves nothing: the provider says that the prompt is too long
_LIMITS: dict[str, tuple[tuple[str, int], ...]] = {
    "anthropic": (
        ("claude-3-haiku", 4_096),
        ("claude-3-opus", 4_096),
        ("claude-3-5", 8_192),
        ("claude-opus-4-0", 32_000),
        ("claude-opus-4-1", 32_000),
        ("claude-opus-4-2025", 32_000),
        ("claude-", 64_000),
    ),
    "openai": (
        ("gpt-3.5", 4_096),
        ("gpt-4o", 16_384),
        ("gpt-4.1", 32_768),
        ("gpt-4-turbo", 4_096),
        ("gpt-5", 128_000),
        ("o1", 100_000),
        ("o3", 100_000),
        ("o4", 100_000),
    ),
    "google": (("gemini-1", 8_192), ("gemini-2.0", 8_192), ("gemini-", 65_536)),
}
"""Limits as the providers publish them, by how a model's name begins; the first that fits holds."""


def longest_answer(profile: ModelProfile) -> int:
    """Return how many tokens one answer of a model may have, where nobody asks for another number."""
    return profile.max_tokens or _family_limit(profile) or UNKNOWN


def _family_limit(profile: ModelProfile) -> int | None:
    provider, _, model = profile.model.partition(":")
    family = next((name for name in _LIMITS if provider.startswith(name)), "")
    return next((limit for start, limit in _LIMITS.get(family, ()) if model.startswith(start)), None)


def answer_tokens(
    request: ModelRequest, profile: ModelProfile, *, prompt: int | None = None, stands_in: bool = False
) -> int:
    """Return the tokens an answer may have: what is wanted, the model's own limit, the rest of its window."""
    if prompt is None:
        prompt = estimate_input_tokens(request, context_window=profile.context_window)
    length = request.settings.max_tokens
    if length is None:
        length = longest_answer(profile)
    elif stands_in or profile.max_tokens is None:
        length = min(length, profile.max_tokens or _family_limit(profile) or length)
    return max(SHORTEST, min(length, profile.context_window - prompt))
