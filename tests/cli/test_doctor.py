"""`doctor`."""

from __future__ import annotations

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
    "pypdf",
    "model offline (default)",
    "prompts",
]


def test_all_is_well(folder: Folder) -> None:
    done = folder.run("doctor")
    assert (done.code, done.err) == (0, "")
    assert [line[:4].strip() for line in done.out.splitlines()] == ["ok"] * len(NAMES)
    found = folder.run("doctor", "--json")
    assert found.code == 0
    assert found.json["ok"] is True
    assert [one["name"] for one in found.json["checks"]] == NAMES
    assert set(found.json["checks"][0]) == {"name", "status", "detail", "hint"}
    assert not folder.workspace.exists()


def test_a_workspace_with_runs(folder: Folder) -> None:
    folder.run("run", QUESTION, "-f", "lease.txt")
    done = folder.run("doctor")
    assert done.code == 0
    assert ".agentorchestra is writable, format " in done.out
    assert ", 1 runs" in done.out


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
    assert "ok    app" in app.run("doctor").out
    app.write("app.py", "raise ValueError('no')")
    done = app.run("doctor")
    assert done.code == 1
    assert "ValueError: no" in done.out
