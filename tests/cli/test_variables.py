"""Environment variables that name no setting are refused, not passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.errors import SettingsError
from agentorchestra.workspace import load_settings


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("AGENTORCHESTRA_MODLE", "AGENTORCHESTRA_MODEL"),
        ("agentorchestra_max_step", "AGENTORCHESTRA_MAX_STEPS"),
        ("AGENTORCHESTRA_BUDGET_TOKENS", "AGENTORCHESTRA_BUDGET__TOKENS"),
        ("AGENTORCHESTRA_WORKSPCE", "AGENTORCHESTRA_WORKSPACE"),
        ("AGENTORCHESTRA_BUGDET__TOKENS", "AGENTORCHESTRA_BUDGET__TOKENS"),
    ],
)
def test_a_misspelt_variable_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, meant: str
) -> None:
    monkeypatch.setenv(variable, "3")
    with pytest.raises(SettingsError, match=f"{variable} names no setting; did you mean {meant}\\?"):
        load_settings(tmp_path / "ws")


def test_a_variable_like_no_setting_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTORCHESTRA_XYZZY", "3")
    with pytest.raises(SettingsError, match="AGENTORCHESTRA_XYZZY names no setting; correct or remove it"):
        load_settings(tmp_path / "ws")


def test_nested_names_and_those_of_the_command_line_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTORCHESTRA_WORKSPACE", "elsewhere")
    monkeypatch.setenv("AGENTORCHESTRA_DEBUG", "1")
    monkeypatch.setenv("AGENTORCHESTRA_BUDGET__TOKENS", "500")
    monkeypatch.setenv("AGENTORCHESTRA_MODELS__LOCAL__MODEL", "openai:gpt-5")
    settings = load_settings(tmp_path / "ws")
    assert settings.budget.tokens == 500
    assert settings.models["local"].model == "openai:gpt-5"
    monkeypatch.setenv("AGENTORCHESTRA_BUDGET__TOKNES", "500")
    with pytest.raises(SettingsError, match="did you mean AGENTORCHESTRA_BUDGET__TOKENS"):
        load_settings(tmp_path / "ws")


def test_a_misspelt_limit_in_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agentorchestra.toml").write_text("[budget]\ntoknes = 500\n")
    with pytest.raises(SettingsError, match=r"budget\.toknes .* is no limit; did you mean 'tokens'"):
        load_settings(tmp_path / "ws")
