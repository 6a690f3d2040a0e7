"""ModelManager: names of models become clients; what cannot work is refused before anything is spent."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import (
    BudgetError,
    MissingExtraError,
    MissingKeyError,
    SettingsError,
    UnknownModelError,
    UsageError,
)
from agentorchestra.core.names import nearest
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.models.client import ModelClient
from agentorchestra.models.endpoint import LOCAL, Endpoint
from agentorchestra.models.failures import shown_address
from agentorchestra.models.prices import is_loopback, price_of
from agentorchestra.models.providers import FAMILIES, PROVIDERS, model_id

_INPUT, _OUTPUT = Usage(requests=1, input_tokens=1_000_000), Usage(requests=1, output_tokens=1_000_000)
_PROBE = Usage(requests=1, input_tokens=1_000, output_tokens=1_000)


REST_S = 60.0
"""How long a model that failed is asked last, where it has fallbacks: a silent one would cost every step its time."""


class RateLimiter:
    """Lets requests of one model through: so many at a time, so many a minute; None for any number."""

    def __init__(self, concurrency: int | None, per_minute: float | None) -> None:
        self._places = None if concurrency is None else asyncio.Semaphore(concurrency)
        self._rate = None
        if per_minute is not None:
            from aiolimiter import AsyncLimiter

            # A rate under one a minute is one in so many seconds.
            self._rate = AsyncLimiter(max(1.0, per_minute), 60.0 * max(1.0, 1.0 / per_minute))

    async def __aenter__(self) -> None:
        if self._places is not None:
            await self._places.acquire()
        if self._rate is not None:
            try:
                await self._rate.acquire()
            except BaseException:
                self._leave()
                raise

    async def __aexit__(self, *error: object) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._places is not None:
            self._places.release()


class ModelManager:
    """Finds, checks, makes and closes model clients (the papers' ModelManager).

    Names are, in this order: clients given in code (`extra`, closed by whoever made them), profiles of the settings,
    `offline`, `provider:model`. Keys, and addresses such as OPENAI_BASE_URL, are looked up in `environ`.

    Attributes:
        everywhere: where a request of a model waits for those of other processes; None where there are none.
        section: where the profile of a name is written, for sentences.
    """

    section = "[models.{}]"

    everywhere: Callable[[str], AbstractAsyncContextManager[None]] | None = None

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], *, extra: Mapping[str, ModelClient] | None = None
    ) -> None:
        self._settings = settings
        self._profiles = settings.models
        self._environ = environ
        self._extra: dict[str, ModelClient] = dict(extra or {})
        self._clients: dict[str, ModelClient] = {}
        self._gates: dict[str, RateLimiter] = {}
        self._resting: dict[str, float] = {}

    def overlay(self, client: ModelClient) -> ModelManager:
        """Return the same manager with one more client under its own name, for one run; the original is not changed."""
        other = copy.copy(self)
        other._extra = {**self._extra, client.name: client}
        return other

    def add(self, client: ModelClient) -> None:
        self._extra[client.name] = client

    def check(self, name: str) -> None:
        """Raise UnknownModelError, MissingExtraError, MissingKeyError or SettingsError; imports and opens nothing."""
        for link in self.chain(name):
            if link not in self._extra:
                self._resolve(link)

    def uses(self) -> dict[str, tuple[str, ...]]:
        """Every model that the settings or the code name, and what for: `default`, `role judge`, `embeddings`, ..."""
        settings = self._settings
        uses: dict[str, list[str]] = {settings.model: ["default"]}
        for name in (*settings.models, *self._extra):
            uses.setdefault(name, [])
        for role, choice in settings.roles.items():
            if choice.model:
                uses.setdefault(choice.model, []).append(f"role {role}")
        for name, use in ((settings.embedding_model, "embeddings"), (settings.transcription_model, "transcription")):
            if name:
                uses.setdefault(name, []).append(use)
        return {name: tuple(purposes) for name, purposes in uses.items()}

    def chain(self, name: str) -> tuple[str, ...]:
        """Return a model and its fallbacks in order, each once; raise SettingsError if a fallback names no model."""
        names: list[str] = []
        waiting = [(name, "")]
        while waiting:
            link, owner = waiting.pop(0)
            if link in names:
                continue
            profile = self._extra[link].profile if link in self._extra else self._profiles.get(link)
            if owner and profile is None and link != "offline" and not self._is_provider(link):
                raise SettingsError(f"fallbacks of [models.{owner}] names {link!r}: {self._unknown(link)}")
            names.append(link)
            waiting += [(fallback, link) for fallback in (profile.fallbacks if profile is not None else ())]
        return tuple(names)

    def profile(self, name: str) -> ModelProfile:
        """Return the profile of a model, whether or not it can be asked."""
        extra = self._extra.get(name)
        return extra.profile if extra is not None else self._profiles.get(name, ModelProfile(model=name))

    def endpoint(self, name: str) -> Endpoint | None:
        """Return where a model is served, and with which key, None for one given in code; raise as `check`."""
        return None if name in self._extra else self._resolve(name)

    @asynccontextmanager
    async def place(self, name: str) -> AsyncIterator[None]:
        """Wait until a request of a model may begin, by the limits over all runs; it ends with the block."""
        if name not in self._gates:
            profile = self.client(name).profile
            self._gates[name] = RateLimiter(profile.concurrency, profile.requests_per_minute)
        async with self._gates[name]:
            if self.everywhere is None:
                yield
                return
            async with self.everywhere(name):
                yield

    def rest(self, name: str, seconds: float | None = None) -> None:
        """Ask a model last for a minute, or for the seconds that the provider asked for if they are more: it failed."""
        self._resting[name] = asyncio.get_running_loop().time() + max(REST_S, seconds or 0.0)

    def rested_last(self, clients: Sequence[tuple[str, ModelClient]]) -> list[tuple[str, ModelClient]]:
        if not self._resting:
            return list(clients)
        now = asyncio.get_running_loop().time()
        return sorted(clients, key=lambda pair: self._resting.get(pair[0], 0.0) > now)

    def client(self, name: str) -> ModelClient:
        """Return the client of a name, made when first asked for; raise as `check`."""
        client = self._extra.get(name) or self._clients.get(name)
        if client is None:
            client = self._clients[name] = self._make(self._resolve(name))
        return client

    def price_known(self, name: str) -> bool:
        """Return True if dollars can be counted for this model; raise as `check`."""
        return self._price(name) is not None

    def free(self, name: str) -> bool:
        """Return True if this model costs nothing; raise as `check`."""
        return self._price(name) == 0

    def require_price(self, name: str) -> None:
        """Refuse a model without a known price, for a budget in dollars: BudgetError says what to write."""
        if not self.price_known(name):
            section = name if name in self._profiles else "NAME"
            raise BudgetError(
                f"the price of model {name!r} is unknown, so a budget in US dollars cannot be held; give it in "
                f"agentorchestra.toml ([models.{section}.price]: input, output, per million tokens), or limit tokens "
                "or steps instead"
            )

    def dollars(self, name: str) -> tuple[float, float] | None:
        """Return US dollars per million input and output tokens, None where that is not known."""
        try:
            prices = [self._price(name, usage) for usage in (_INPUT, _OUTPUT)]
        except UsageError:
            return None
        return None if prices[0] is None or prices[1] is None else (prices[0], prices[1])

    @cached_property
    def key_variables(self) -> tuple[str, ...]:
        """The names of the variables in which models may find a key."""
        names = {env for entry in PROVIDERS.values() for env in entry.key_envs}
        return (
            *sorted(names.union(profile.api_key_env for profile in self._profiles.values() if profile.api_key_env)),
        )

    async def aclose(self) -> None:
        """Close the clients made here; idempotent."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    def _price(self, name: str, usage: Usage = _PROBE) -> float | None:
        """Return the US dollars of a usage, of a usual request without one."""
        extra = self._extra.get(name)
        if extra is not None:
            return extra.price(usage)
        endpoint = self._resolve(name)
        if endpoint.provider == "local":
            return 0.0
        return price_of(endpoint.profile, usage, address=endpoint.address)

    def _resolve(self, name: str) -> Endpoint:
        profile = self._profiles.get(name)
        in_settings = profile is not None
        if profile is None:
            if name != "offline" and not self._is_provider(name):
                raise UnknownModelError(self._unknown(name))
            profile = ModelProfile(model=name)
        if profile.model == "offline":
            return Endpoint(name, profile, in_settings, "offline", "offline", None, "", None)
        if profile.model.startswith(LOCAL):
            self._local(name, profile)
            return Endpoint(name, profile, in_settings, "local", profile.model.removeprefix(LOCAL), None, "", None)
        if profile.model == "scripted":
            raise UnknownModelError(
                f"model {name!r} is a scripted one, which only code can give: "
                "pass a ScriptedModel (agentorchestra.testing) as model="
            )
        return self._resolve_provider(name, profile, in_settings)

    def _resolve_provider(self, name: str, profile: ModelProfile, in_settings: bool) -> Endpoint:
        provider, sep, model = profile.model.partition(":")
        if not (sep and provider in PROVIDERS):
            if profile.base_url is None:
                raise UnknownModelError(
                    f"profile {name!r} has model = {profile.model!r}, whose provider is unknown; write provider:model "
                    f"(providers: {', '.join(PROVIDERS)}), or give base_url for an OpenAI-compatible server"
                )
            # Only an address: the whole name is the server's own, colons included (`qwen3:8b`).
            provider, model = "", profile.model
        if not model:
            raise UnknownModelError(f"model {name!r} names no model after the colon; write provider:model")
        entry = PROVIDERS.get(provider)
        if entry is not None and not entry.is_installed:
            raise MissingExtraError(
                f"model {name!r} needs the package {entry.module}, which is not installed; "
                f'run: pip install "pydantic-ai-slim[{entry.extra}]"'
            )
        address = profile.base_url
        if address is not None:
            check_address(address, f"base_url of [models.{name}]")
        elif entry is not None:
            address = self._environ.get(entry.address_env) or entry.address
        key_env, key = self._key(name, profile, provider, address)
        return Endpoint(name, profile, in_settings, provider, model, address, key_env, key, self.section.format(name))

    def _key(self, name: str, profile: ModelProfile, provider: str, address: str | None) -> tuple[str, str | None]:
        """Return the variable and value of the key; a server on this machine needs none."""
        if profile.api_key_env == "":
            return "", None
        entry = PROVIDERS.get(provider)
        if profile.api_key_env is not None:
            names: tuple[str, ...] = (profile.api_key_env,)
        elif profile.base_url is not None and is_loopback(profile.base_url):
            # A key is for its provider: what listens on this machine gets one only if the profile says so.
            return "", None
        else:
            names = entry.key_envs if entry is not None else ("OPENAI_API_KEY",)
        for env in names:
            if self._environ.get(env):
                return env, self._environ[env]
        if not names or (address is not None and is_loopback(address)):
            return "", None
        hint = (
            f' (or name another variable with api_key_env in [models.{name}], "" for none)' if profile.base_url else ""
        )
        raise MissingKeyError(
            f"model {name!r} needs a key and the environment does not hold {' or '.join(names)}; "
            f"set it: export {names[0]}=..., or let `agentorchestra setup` keep it{hint}"
        )

    def _make(self, endpoint: Endpoint) -> ModelClient:
        if endpoint.provider == "offline":
            from agentorchestra.models.offline.model import OfflineModel

            model = OfflineModel(profile=endpoint.profile) if endpoint.in_settings else OfflineModel()
            return cast("ModelClient", model)
        if endpoint.provider == "local":
            return self._local(endpoint.name, endpoint.profile)
        from agentorchestra.models.openai import PydanticAIClient

        return PydanticAIClient(endpoint)

    def _local(self, name: str, profile: ModelProfile) -> ModelClient:
        """Make the client of a model on this machine, without reading the model; raise as `check`."""
        from agentorchestra.models.local_embedding import LocalEmbedder
        from agentorchestra.models.local_transcription import LocalTranscriber, hears

        if name == self._settings.transcription_model or hears(profile.model):
            return LocalTranscriber(profile)
        return LocalEmbedder(profile)

    def _is_provider(self, name: str) -> bool:
        return ":" in name and (name.partition(":")[0] in PROVIDERS or name.startswith(LOCAL))

    def _unknown(self, name: str) -> str:
        names = list(dict.fromkeys([*self._profiles, *self._extra, "offline"]))
        aliases = [own for own, profile in self._profiles.items() if model_id(profile.model) == name]
        guess = aliases[0] if len(aliases) == 1 else self._guess(name, names)
        if name and not guess and Path(name).exists():
            return (
                f"{name!r} is a file or folder, not a model's name; have a server read it (llama.cpp: llama-server -m "
                "FILE), and describe the server in the settings: [models.NAME] with model and base_url"
            )
        sentence = f"no model {name!r}" + (f", did you mean {guess!r}?" if guess else "")
        if guess in aliases:
            sentence = f"no model {name!r}: {name!r} is called {guess!r} here"
        providers = f"; providers: {', '.join(PROVIDERS)}" if ":" in name and not guess else ""
        if ":" not in name and not guess:
            providers = f"; of a server on this machine: ollama:{name}, vllm:{name} or a profile with base_url"
        return (
            f"{sentence} (known here: {', '.join(names)}; any other model as provider:model, e.g. openai:gpt-5"
            f"{providers})"
        )

    def _guess(self, name: str, names: list[str]) -> str | None:
        if near := nearest(name, names):
            return near[0]
        provider, sep, model = name.partition(":" if ":" in name else "/")
        if sep:
            owner = nearest(provider, PROVIDERS)
            return f"{owner[0]}:{model}" if owner and model else None
        for start, maker in FAMILIES.items():
            if name.startswith(start):
                return f"{maker}:{name}"
        return None


def check_address(address: str, subject: str = "the address (--base-url)") -> None:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"{subject} is {shown_address(address) or address!r}; write the whole address, "
            "e.g. http://127.0.0.1:8000/v1"
        )
    if "@" in parts.netloc:
        raise SettingsError(
            f"{subject} holds a user or a password, which logs would show; remove it and name the "
            "variable that holds the key with api_key_env"
        )


class RecordedModels(ModelManager):
    """No models at all: a replay that asks for one takes what it needs to know of it from the recording."""

    def __init__(self) -> None:
        super().__init__(Settings(), {})

    def chain(self, name: str) -> tuple[str, ...]:
        return (name,)

    def client(self, name: str) -> ModelClient:
        raise UnknownModelError(f"the model {name!r} of an imported run is known from its recording only")

    def check(self, name: str) -> None:
        self.client(name)

    def require_price(self, name: str) -> None:
        self.client(name)
