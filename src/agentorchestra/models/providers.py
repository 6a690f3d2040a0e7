"""The providers `provider:model` may name: their keys, the packages they need, and their names in the price list."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class ProviderEntry:
    """What must be known of a provider before its library is imported."""

    # environment variables that may hold the key, the usual one first; empty where none is needed or the provider's
    # library finds its own credentials
    key_envs: tuple[str, ...]
    module: str = "openai"  # the library that must be importable
    extra: str = "openai"  # the extra of pydantic-ai-slim that installs it
    price_id: str = ""  # the name in the price list
    compatible: bool = True  # speaks OpenAI's chat protocol, so `base_url` may point anywhere
    address_env: str = ""  # the environment variable that may hold the server's address
    address: str | None = None  # the usual address, for servers that run on the user's own machine

    @property
    def is_installed(self) -> bool:
        if self.module in _PRESENT:
            return True
        try:
            present = importlib.util.find_spec(self.module) is not None
        except ModuleNotFoundError:
            return False
        if present:
            _PRESENT.add(self.module)
        return present


_PRESENT: set[str] = set()  # modules that were found once: each new run asks for some of them


def _own(key_envs: tuple[str, ...], module: str, extra: str, price_id: str) -> ProviderEntry:
    return ProviderEntry(key_envs, module, extra, price_id, compatible=False)


def _same(price_id: str, *key_envs: str, address_env: str = "", address: str | None = None) -> ProviderEntry:
    return ProviderEntry(key_envs, price_id=price_id, address_env=address_env, address=address)


PROVIDERS: dict[str, ProviderEntry] = {
    "openai": _same("openai", "OPENAI_API_KEY", address_env="OPENAI_BASE_URL"),
    "openai-chat": _same("openai", "OPENAI_API_KEY", address_env="OPENAI_BASE_URL"),
    "openai-responses": ProviderEntry(
        ("OPENAI_API_KEY",), price_id="openai", compatible=False, address_env="OPENAI_BASE_URL"
    ),
    "anthropic": _own(("ANTHROPIC_API_KEY",), "anthropic", "anthropic", "anthropic"),
    "google": _own(("GOOGLE_API_KEY", "GEMINI_API_KEY"), "google.genai", "google", "google"),
    "google-cloud": _own((), "google.genai", "google", "google"),
    "bedrock": _own((), "boto3", "bedrock", "aws"),
    "cohere": _own(("CO_API_KEY",), "cohere", "cohere", "cohere"),
    "groq": _own(("GROQ_API_KEY",), "groq", "groq", "groq"),
    "huggingface": _own(("HF_TOKEN",), "huggingface_hub", "huggingface", "huggingface"),
    "mistral": _own(("MISTRAL_API_KEY",), "mistralai", "mistral", "mistral"),
    "xai": _own(("XAI_API_KEY",), "xai_sdk", "xai", "x-ai"),
    "alibaba": _same("alibaba", "ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
    "cerebras": _same("cerebras", "CEREBRAS_API_KEY"),
    "deepseek": _same("deepseek", "DEEPSEEK_API_KEY"),
    "fireworks": _same("fireworks", "FIREWORKS_API_KEY"),
    "moonshotai": _same("moonshotai", "MOONSHOTAI_API_KEY"),
    "nebius": _same("nebius", "NEBIUS_API_KEY"),
    "ollama": _same("ollama", address_env="OLLAMA_BASE_URL", address="http://127.0.0.1:11434/v1"),
    "openrouter": _same("openrouter", "OPENROUTER_API_KEY"),
    "ovhcloud": _same("ovhcloud", "OVHCLOUD_API_KEY"),
    "sambanova": _same("sambanova", "SAMBANOVA_API_KEY"),
    "together": _same("together", "TOGETHER_API_KEY"),
    "vllm": _same("vllm", address_env="VLLM_BASE_URL", address="http://127.0.0.1:8000/v1"),
    "zai": _same("zai", "ZAI_API_KEY"),
}
"""Providers by the name before the colon."""

FAMILIES = {"gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude": "anthropic", "gemini": "google"}
"""Beginnings of model names that people write without their provider."""


def model_id(name: str) -> str:
    """Return the model's name without its provider: the same model may be had at several places."""
    provider, sep, model = name.partition(":")
    return model if sep and provider in PROVIDERS else name
