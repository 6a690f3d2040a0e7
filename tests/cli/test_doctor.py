"""`doctor`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.cli.commands.doctor import Check, examine
from tests.cli.support import QUESTION, Folder

NAMES = [
    "Python",
    "SQLite",
    "SQLite WAL",
    "SQLite FTS5",
    "workspace",
    "settings",
    "disk",
    "Monty",
    "sandbox",
    "sandbox memory",
    "sandbox processes",
    "browser",
    "desktop",
    "pypdf",
    "model offline (default)",
    ".env",
    "keyring",
    "prompts",
    "components",
    "search",
]


def test_all_is_well(folder: Folder) -> None:
    done = folder.run("doctor")
    assert (done.code, done.err) == (0, "")
    for line, name in zip(done.out.splitlines(), NAMES, strict=True):
        # Nobody has to have a keyring, and this machine may have none.
        assert line.split()[0] == "ok" or (name == "keyring" and line.startswith("not installed  keyring ")), line
    found = folder.run("doctor", "--json")
    assert found.code == 0
    assert found.json["ok"] is True
    assert [one["name"] for one in found.json["checks"]] == NAMES
    assert set(found.json["checks"][0]) == {"name", "status", "detail", "hint"}
    assert not folder.workspace.exists()


def test_what_the_desktop_needs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = [one for one in examine(tmp_path) if one.name == "desktop"]
    assert found.status == "not installed", "nobody has to have one"
    assert found.detail.startswith(
        "the desktop needs Xvfb and openbox (Debian and Ubuntu: apt-get install xvfb openbox)"
    )
    assert "bubblewrap" in found.detail


@pytest.mark.long
def test_a_workspace_with_runs(folder: Folder) -> None:
    folder.run("run", QUESTION, "-f", "lease.txt")
    done = folder.run("doctor")
    assert done.code == 0
    assert ".agentorchestra is writable, format " in done.out
    assert ", 1 runs" in done.out


def test_fallbacks_roles_and_other_uses_of_models(folder: Folder) -> None:
    settings = """
    model = "big"
    embedding_model = "openai:text-embedding-3-small"
    [models.big]
    model = "offline"
    fallbacks = ["spare"]
    [models.spare]
    model = "openai:spare"
    base_url = "http://127.0.0.1:9/v1"
    fallbacks = ["nonesuch"]
    [roles.judge]
    model = "openai:gpt-5"
    [roles.planner]
    model = "big"
    """
    folder.write("agentorchestra.toml", settings)
    wrong = folder.run("doctor")
    assert wrong.code != 0
    (line,) = [line for line in wrong.out.splitlines() if "model big (default, role planner)" in line]
    assert line.startswith("fail") and "fallbacks of [models.spare] names 'nonesuch'" in wrong.out
    folder.write("agentorchestra.toml", settings.replace('fallbacks = ["nonesuch"]', ""))
    found = {one["name"]: one for one in folder.run("doctor", "--json").json["checks"]}
    assert found["model big (default, role planner)"]["detail"].endswith(", then spare")
    assert found["model openai:gpt-5 (role judge)"]["status"] == "fail"
    assert found["model openai:text-embedding-3-small (embeddings)"]["status"] == "warn"


def test_models_and_their_keys(folder: Folder) -> None:
    settings = """
    model = "big"
    [models.big]
    model = "openai:gpt-5"
    [models.other]
    model = "anthropic:claude-opus-4-1"
    api_key_env = "MY_KEY"
    [models.local]
    model = "llama"
    base_url = "http://127.0.0.1:9/v1"
    """
    folder.write("agentorchestra.toml", settings)
    without = folder.run("doctor")
    assert without.code == 1
    (line,) = [line for line in without.out.splitlines() if "model big (default)" in line]
    assert line.startswith("fail")
    assert "OPENAI_API_KEY" in line
    assert "model local" in without.out
    with_keys = folder.run("doctor", env={"OPENAI_API_KEY": "sk-very-secret", "MY_KEY": "also-secret"})
    assert with_keys.code == 0
    assert "secret" not in with_keys.out + with_keys.err


def test_a_prompt_that_cannot_be_read(folder: Folder) -> None:
    (folder.workspace / "prompts").mkdir(parents=True)
    (folder.workspace / "prompts" / "react.md").write_text("no front matter")
    done = folder.run("doctor")
    assert done.code == 1
    assert "has no front matter" in done.out
    run = folder.run("run", QUESTION)
    assert run.code == 2
    assert "has no front matter" in run.error


def test_the_application(app: Folder) -> None:
    assert ["ok", "app", "app:workspace"] in [line.split() for line in app.run("doctor").out.splitlines()]
    app.write("app.py", "raise ValueError('no')")
    done = app.run("doctor")
    assert done.code == 1
    assert "ValueError: no" in done.out


def checks(folder: Path) -> dict[str, Check]:
    """The report, by name, made in this process."""
    return {one.name: one for one in examine(folder)}


@pytest.fixture
def own_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an application that brings the default model and a tool."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"app_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(
        "from agentorchestra import Workspace\n"
        "from agentorchestra.testing import ScriptedModel, call\n\n\n"
        "def send_mail(to: str) -> str:\n"
        '    """Send a mail.\n\n    Args:\n        to: the address.\n    """\n'
        "    return to\n\n\n"
        "def workspace():\n"
        '    return Workspace(tools=[send_mail], models={"m": ScriptedModel([call("done", answer="yes")])})\n'
    )
    (tmp_path / "agentorchestra.toml").write_text(
        f'app = "{name}:workspace"\nmodel = "m"\n'
        '[policy]\nallow = ["send_mail", "todo"]\ndeny = ["send_mial", "react"]\n'
    )
    return tmp_path


def test_a_model_of_the_application_is_known(own_app: Path) -> None:
    found = checks(own_app / ".agentorchestra")
    assert found["model m (default)"].status == "ok"
    assert not [one for one in found.values() if one.status == "fail"]
    assert not (own_app / ".agentorchestra").exists()


def test_a_rule_for_a_name_that_nothing_has(own_app: Path) -> None:
    found = checks(own_app / ".agentorchestra")
    assert "policy.allow" not in found
    assert found["policy.deny"].status == "warn"
    assert found["policy.deny"].detail == "nothing is named 'send_mial'"
    assert found["policy.deny"].hint == "did you mean 'send_mail'?"


def test_a_prompt_that_replaces_nothing(tmp_path: Path) -> None:
    prompts = tmp_path / "ws" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "raect.md").write_text("---\nname: raect\nversion: 1.0.0\n---\nHello\n")
    found = checks(tmp_path / "ws")
    assert found["prompts"].status == "ok"
    assert found["prompt raect"].status == "warn"
    assert "replaces no prompt" in found["prompt raect"].detail
    assert found["prompt raect"].hint.startswith("did you mean ")


def test_a_prompt_of_the_application_may_be_replaced(app: Folder) -> None:
    text = "---\nname: clerk\nversion: 1.0.0\n---\nHello\n"
    for place in ("own", ".agentorchestra/prompts"):
        (app.path / place).mkdir(parents=True)
        app.write(f"{place}/clerk.md", text)
    before = app.run("doctor", "--json").json["checks"]
    assert "prompt clerk" in [one["name"] for one in before]
    app.write(
        "app.py", (app.path / "app.py").read_text().replace("return Workspace(", "return Workspace(prompts=['own'], ")
    )
    checks = {one["name"]: one for one in app.run("doctor", "--json").json["checks"]}
    assert "prompt clerk" not in checks and "replaced here: clerk" in checks["prompts"]["detail"]


def test_search_engines_that_lack_what_the_settings_ask_for(folder: Folder) -> None:
    folder.write("agentorchestra.toml", '[search]\nengines = ["local", "serper"]\n[[search.folders]]\npath = "gone"\n')
    (found,) = [one for one in folder.run("doctor", "--json").json["checks"] if one["name"] == "search"]
    assert (found["status"], found["detail"]) == ("warn", "asks local")
    assert found["hint"] == "serper needs a key: set SERPER_API_KEY; the folder gone is not there"


def test_a_search_engine_that_there_is_not(folder: Folder) -> None:
    folder.write("agentorchestra.toml", '[search]\nengines = ["altavista"]\n')
    (found,) = [one for one in folder.run("doctor", "--json").json["checks"] if one["name"] == "search"]
    assert found["status"] == "fail"
    assert found["detail"].startswith("search names the engine 'altavista'; it can be one of: auto, local, ")
