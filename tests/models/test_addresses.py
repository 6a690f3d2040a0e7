"""Where requests go and with which key: profiles, the environment, servers on this machine."""

from __future__ import annotations

import pytest

from agentorchestra.core.errors import (
    MissingExtraError,
    ModelError,
    ModelRequestError,
    SettingsError,
    UnknownModelError,
)
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.models import providers
from agentorchestra.models.endpoint import Endpoint
from agentorchestra.models.failures import Target
from agentorchestra.models.manager import ModelManager
from agentorchestra.testing import LoopbackModelServer
from tests.models.support import asking, no_media
from tests.support.formats import LoopbackAnthropicServer, LoopbackGoogleServer


def manager_of(environ: dict[str, str] | None = None, **profiles: ModelProfile) -> ModelManager:
    return ModelManager(Settings(models=profiles), environ or {})


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("localhost:8000/v1", "write the whole address, e.g. http://127.0.0.1:8000/v1"),
        ("ftp://example.org", "write the whole address"),
        ("http://ann:pw-4711@example.org/v1", "holds a user or a password"),
    ],
)
def test_an_address_that_cannot_work_is_refused(address: str, sentence: str) -> None:
    manager = manager_of(local=ModelProfile(model="m", base_url=address, api_key_env=""))
    with pytest.raises(SettingsError) as caught:
        manager.check("local")
    assert "base_url of [models.local]" in str(caught.value) and sentence in str(caught.value)
    assert "pw-4711" not in str(caught.value)


async def test_the_environments_address_and_key_belong_together() -> None:
    async with LoopbackModelServer(lambda body: "5", key="sk-1234567") as server:
        environ = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-1234567"}
        manager = manager_of(environ)
        response = await manager.client("openai:gpt-5").request(asking(), media=no_media)
        assert not manager.price_known("openai:gpt-5"), "what listens on this machine has no published price"
        await manager.aclose()
    assert (response.text, response.model) == ("5", "openai:gpt-5")
    assert server.requests[0]["model"] == "gpt-5"


async def test_a_named_key_is_sent_to_this_machine_too_and_a_wrong_one_told() -> None:
    async with LoopbackModelServer(lambda body: "5", key="right-key-1") as server:
        profile = ModelProfile(model="openai:m", base_url=server.base_url, api_key_env="MY_KEY")
        manager = manager_of({"MY_KEY": "wrong-key-2", "OPENAI_API_KEY": "right-key-1"}, local=profile)
        with pytest.raises(ModelError, match="check the key in MY_KEY"):
            await manager.client("local").request(asking(), media=no_media)
        await manager.aclose()
        nameless = manager_of({"OPENAI_API_KEY": "right-key-1"}, local=profile.model_copy(update={"api_key_env": None}))
        with pytest.raises(
            ModelError, match=r"no key was sent: name its variable with api_key_env in \[models.local\]"
        ):
            await nameless.client("local").request(asking(), media=no_media)
        await nameless.aclose()


@pytest.mark.parametrize(
    ("name", "address"), [("ollama:qwen3:8b", "http://127.0.0.1:11434/v1"), ("vllm:m", "http://127.0.0.1:8000/v1")]
)
async def test_local_servers_have_usual_addresses(name: str, address: str) -> None:
    assert str(Target.of(manager_of()._resolve(name))) == f"{name} at {address}"
    async with LoopbackModelServer(lambda body: "5") as server:
        variable = providers.PROVIDERS[name.partition(":")[0]].address_env
        manager = manager_of({variable: server.base_url})
        assert (await manager.client(name).request(asking(), media=no_media)).text == "5"
        await manager.aclose()
    assert server.requests[0]["model"] == name.partition(":")[2]


async def test_the_limit_of_output_goes_by_the_name_the_server_knows() -> None:
    async with LoopbackModelServer(lambda body: "5") as server:
        profiles = {
            "own": ModelProfile(model="qwen3:8b", base_url=server.base_url),
            "relayed": ModelProfile(model="openai:gpt-5", base_url=server.base_url),
        }
        manager = manager_of(None, **profiles)
        for name in profiles:
            await manager.client(name).request(asking(max_tokens=9), media=no_media)
        await manager.aclose()
    own, relayed = server.requests
    assert (own["model"], own["max_tokens"], own.get("max_completion_tokens")) == ("qwen3:8b", 9, None)
    assert (relayed["model"], relayed["max_completion_tokens"], relayed.get("max_tokens")) == ("gpt-5", 9, None)


async def test_a_provider_that_the_library_chooses() -> None:
    # The Responses API goes the way of every other provider: through infer_model. The server does not speak it.
    async with LoopbackModelServer(lambda body: "5") as server:
        manager = manager_of({"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-1234567"})
        with pytest.raises(ModelRequestError) as caught:
            await manager.client("openai-responses:gpt-5").request(asking(), media=no_media)
        await manager.aclose()
    assert f"openai-responses:gpt-5 at {server_address(caught.value)}" in str(caught.value)
    assert "HTTP 404: no POST /v1/responses here" in str(caught.value)
    assert "check OPENAI_BASE_URL" in str(caught.value)


def server_address(error: ModelError) -> str:
    return str(error).split(" at ")[1].split(" ")[0]


def test_a_package_that_is_not_there_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = providers.ProviderEntry(("ODD_KEY",), module="no_such_module.inner", extra="odd", compatible=False)
    monkeypatch.setitem(providers.PROVIDERS, "odd", entry)
    with pytest.raises(MissingExtraError) as caught:
        manager_of({"ODD_KEY": "x"}).check("odd:model")
    assert str(caught.value) == (
        "model 'odd:model' needs the package no_such_module.inner, which is not installed; "
        'run: pip install "pydantic-ai-slim[odd]"'
    )


def test_scripted_and_offline_profiles() -> None:
    manager = manager_of(None, acted=ModelProfile(model="scripted"), rules=ModelProfile(model="offline", tools=False))
    with pytest.raises(UnknownModelError, match="pass a ScriptedModel"):
        manager.check("acted")
    assert not manager.client("rules").profile.tools
    assert manager.client("rules").native_tools and manager.client("offline").profile.tools


def test_what_a_server_said_is_short_and_shows_no_key() -> None:
    profile = ModelProfile(model="openai:gpt-5")
    endpoint = Endpoint("openai:gpt-5", profile, False, "openai", "gpt-5", None, "OPENAI_API_KEY", "hunter2-hunter2")
    target = Target.of(endpoint)
    assert str(target) == "openai:gpt-5 at https://api.openai.com/v1"
    body = {"error": {"message": "bad key hunter2-hunter2\nor sk-proj-abc***xyz, <b>see</b>\tthe page"}}
    assert target.quote(body) == "bad key [key] or [key], see the page"
    assert len(target.quote("x" * 5_000)) == 200
    assert target.quote(None) == ""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("make", "model", "env"),
    [
        (LoopbackAnthropicServer, "anthropic:claude-opus-4-5", "ANTHROPIC_API_KEY"),
        (LoopbackGoogleServer, "google:gemini-2.5-flash", "GOOGLE_API_KEY"),
        (LoopbackModelServer, "openai:gpt-5", "OPENAI_API_KEY"),
    ],
)
async def test_a_local_server_of_any_format_gets_no_key_of_the_environment(
    make: type[LoopbackModelServer], model: str, env: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it need one, whatever the provider's library would look up by itself."""
    monkeypatch.setenv(env, "sk-of-the-provider")
    async with make(["5"]) as server:
        profile = ModelProfile(model=model, base_url=server.base_url)
        manager = ModelManager(Settings(models={"local": profile}), {env: "sk-of-the-provider"})
        response = await manager.client("local").request(asking(), media=no_media)
        await manager.aclose()
    assert response.text == "5"
    assert "sk-of-the-provider" not in str(server.headers)
