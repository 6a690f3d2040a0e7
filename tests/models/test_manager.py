"""Names of models, keys, prices: what is refused before anything is spent, and with which sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import BudgetError, MissingKeyError, UnknownModelError
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.models.manager import ModelManager
from agentorchestra.models.prices import price_of
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace.variables import values_of

LOCAL = "http://127.0.0.1:9/v1"
SETTINGS = Settings(
    models={
        "fast": ModelProfile(model="openai:gpt-4o-mini"),
        "local": ModelProfile(model="qwen3:8b", base_url=LOCAL),
        "gratis": ModelProfile(model="qwen3:8b", base_url=LOCAL, price=Price(input=0, output=0)),
        "priced": ModelProfile(model="qwen3:8b", base_url=LOCAL, price=Price(input=1, output=2)),
        "far": ModelProfile(model="big", base_url="https://models.example.org/v1", api_key_env="FAR_KEY"),
        "rules": ModelProfile(model="offline"),
        "odd": ModelProfile(model="nobody:x"),
    }
)
KEYS = {"OPENAI_API_KEY": "sk-1", "FAR_KEY": "far-1", "UNRELATED": "secret"}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("fsat", ["no model 'fsat'", "did you mean 'fast'?", "fast, local", "offline", "provider:model"]),
        ("gpt-4o", ["no model 'gpt-4o'", "did you mean 'openai:gpt-4o'?"]),
        ("opnai:gpt-4o", ["did you mean 'openai:gpt-4o'?"]),
        ("big", ["no model 'big': 'big' is called 'far' here"]),
        ("zzz", ["no model 'zzz' (known here: fast, local", "openai:gpt-5"]),
        ("openai:", ["names no model after the colon"]),
        ("odd", ["profile 'odd' has model = 'nobody:x'", "give base_url"]),
    ],
)
def test_unknown_models_are_told_with_what_there_is(name: str, parts: list[str]) -> None:
    with pytest.raises(UnknownModelError) as caught:
        ModelManager(SETTINGS, KEYS).check(name)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "variable"), [("openai:gpt-5", "OPENAI_API_KEY"), ("fast", "OPENAI_API_KEY"), ("far", "FAR_KEY")]
)
def test_a_missing_key_names_its_variable_and_the_command(name: str, variable: str) -> None:
    manager = ModelManager(SETTINGS, {variable: ""})
    with pytest.raises(MissingKeyError) as caught:
        manager.check(name)
    assert f"model {name!r} needs a key" in str(caught.value) and f"export {variable}=..." in str(caught.value)
    with pytest.raises(MissingKeyError):
        manager.client(name)


def test_what_can_be_asked_passes_and_is_made_once() -> None:
    scripted = ScriptedModel(["yes"])
    manager = ModelManager(SETTINGS, KEYS, extra={"scripted": scripted})
    for name in ("fast", "local", "far", "rules", "offline", "openai:gpt-5", "scripted"):
        manager.check(name)
    assert manager.client("scripted") is scripted
    assert manager.client("local") is manager.client("local")
    added = ScriptedModel(["yes"], name="another")
    manager.add(added)
    assert manager.client("another") is added


@pytest.mark.parametrize(
    ("name", "known", "free"),
    [
        ("offline", True, True),
        ("rules", True, True),
        ("scripted", True, True),
        ("gratis", True, True),
        ("priced", True, False),
        ("fast", True, False),
        ("openai:gpt-4o", True, False),
        ("local", False, False),
        ("openai:no-such-model-at-all", False, False),
    ],
)
def test_prices_known_and_free(name: str, known: bool, free: bool) -> None:
    manager = ModelManager(SETTINGS, KEYS, extra={"scripted": ScriptedModel([])})
    assert (manager.price_known(name), manager.free(name)) == (known, free)


def test_a_dollar_limit_needs_a_price() -> None:
    manager = ModelManager(SETTINGS, KEYS)
    manager.require_price("priced")
    with pytest.raises(BudgetError, match=r"the price of model 'local' is unknown.*\[models\.local\.price\]"):
        manager.require_price("local")


def test_classes_of_tokens_are_priced_apart() -> None:
    usage = Usage(input_tokens=100, cache_read_tokens=50, cache_write_tokens=20, output_tokens=10)
    price = Price(input=10, output=20, cache_read=1, cache_write=12)
    assert price_of(ModelProfile(model="m", price=price), usage) == pytest.approx((300 + 50 + 240 + 200) / 1e6)
    plain = Price(input=10, output=20)
    assert price_of(ModelProfile(model="m", price=plain), usage) == pytest.approx((1000 + 200) / 1e6)
    published = ModelProfile(model="openai:gpt-4o")
    full = price_of(published, Usage(input_tokens=1000))
    cached = price_of(published, Usage(input_tokens=1000, cache_read_tokens=1000))
    assert full and cached and cached < full


def test_secrets_are_the_keys_that_models_use() -> None:
    assert values_of(KEYS, ModelManager(SETTINGS, KEYS).key_variables) == {"OPENAI_API_KEY": "sk-1", "FAR_KEY": "far-1"}


def test_importing_the_room_is_light() -> None:
    program = (
        "import sys, agentorchestra.models, agentorchestra.models.manager, agentorchestra.models.openai\n"
        "import agentorchestra.models.handler\n"
        "heavy = {'openai', 'pydantic_ai', 'genai_prices', 'httpx2', 'aiohttp'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"imported although nothing was asked: {done.stderr}"
