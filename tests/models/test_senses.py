"""Which models a run asks about pictures, sound and videos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.cli.start import ROLES as NAMED
from agentorchestra.core.settings import ModelProfile, RoleSettings, Settings
from agentorchestra.log.store import MemoryStore
from agentorchestra.models.manager import ModelManager
from agentorchestra.models.media_models import ROLES, media_models
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace


def profile(**fields: Any) -> ModelProfile:
    return ModelProfile(**{"model": "openai:x", "base_url": "http://127.0.0.1:9/v1", **fields})


MODELS = {
    "blind": profile(vision=False, audio=False),
    "unknown": profile(),
    "eyes": profile(vision=True),
    "all": profile(vision=True, audio=True, video=True),
    "keyless": profile(vision=True, base_url=None, api_key_env="NOT_SET"),
    "claude": profile(model="anthropic:claude-opus-4-5", audio=True),
    "offline": ModelProfile(model="offline"),
}


@pytest.mark.parametrize(
    ("model", "known", "roles", "expected"),
    [
        ("blind", ["eyes", "all"], {}, {"image": ("eyes", "all"), "audio": ("all",), "video": ("all",)}),
        ("all", ["eyes"], {}, {"image": ("all", "eyes"), "audio": ("all",), "video": ("all",)}),
        ("unknown", ["all"], {}, {"image": ("all",), "audio": ("all",), "video": ("all",)}),
        ("unknown", [], {}, {"image": ("unknown",), "audio": ("unknown",)}),
        ("unknown", ["eyes"], {"vision": "unknown"}, {"image": ("unknown", "eyes"), "audio": ("unknown",)}),
        ("blind", ["keyless", "claude"], {}, {}),
        ("offline", [], {}, {}),
        ("blind", ["eyes"], {"hearing": "blind"}, {"image": ("eyes",)}),
    ],
)
def test_who_is_asked(
    model: str, known: list[str], roles: dict[str, str], expected: dict[str, tuple[str, ...]]
) -> None:
    settings = Settings(models={name: MODELS[name] for name in dict.fromkeys([model, *known])})
    chosen = {role: RoleSettings(model=name) for role, name in roles.items()}
    assert media_models(ModelManager(settings, {}), settings, model, chosen) == expected


def test_the_settings_role_holds_where_a_model_is_given_by_hand_and_a_recording_is_rather_written_down() -> None:
    settings = Settings(
        models={name: MODELS[name] for name in ("unknown", "eyes", "blind")},
        roles={"vision": RoleSettings(model="unknown")},
        transcription_model="blind",
    )
    found = media_models(ModelManager(settings, {}), settings, "eyes", {"vision": RoleSettings()})
    assert found == {"image": ("unknown", "eyes")}


async def test_a_fork_may_ask_another_model(tmp_path: Path) -> None:
    """Who is asked is settled with the run; a fork with another model for the role settles it anew."""
    script = ScriptedModel([decide(calls=[call("done", answer="seen")])])
    settings = Settings(models={name: MODELS[name] for name in ("eyes", "all")}, system="react")
    async with Workspace(tmp_path / "ws", settings=settings, store=MemoryStore()) as ws:
        result = await ws.run("Look.", model=script)
        forked = await ws.fork(result.run_id, at=1, roles={"vision": "all"})
        kept = [await ws.store.get_run(run) for run in (result.run_id, forked)]
    assert [one.manifest.media_models["image"] for one in kept if one is not None] == [("eyes", "all"), ("all", "eyes")]


def test_the_roles_can_be_named_on_the_command_line() -> None:
    assert {*ROLES.values()} <= {*NAMED.split(", ")}
