"""`components export|import`: registry files and Agent Skills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from skills_ref import read_properties, validate  # type: ignore[import-untyped]

from tests.cli.support import Folder


@pytest.fixture
def other(tmp_path: Path) -> Folder:
    """Another place, without an application."""
    (tmp_path / "elsewhere").mkdir()
    return Folder(tmp_path / "elsewhere")


@pytest.mark.long
def test_tools_in_another_workspace(app: Folder, other: Folder) -> None:
    written = app.run("tools", "export", "mine.json", "--json").json
    assert [(one["kind"], one["path"]) for one in written] == [("tool", "mine.json")]
    taken = other.run("components", "import", app.path / "mine.json", "--json").json
    assert taken[0]["kind"] == "tool" and "send_mail" in taken[0]["components"]
    here, there = (folder.run("tools", "info", "send_mail", "--json").json for folder in (app, other))
    for field in ("version", "content_hash", "operations", "description", "metadata"):
        assert here[field] == there[field]
    assert (
        app.run("tools", "versions", "send_mail").out.split()[1]
        == other.run("tools", "versions", "send_mail").out.split()[1]
    )
    again = other.run("tools", "import", app.path / "mine.json")
    assert (again.code, "send_mail" in again.out) == (0, True)
    assert "their code runs in the sandbox only; import them with --trust if it is your own" in again.err


def test_a_folder_with_every_kind(app: Folder, other: Folder) -> None:
    done = app.run("components", "export", "all")
    written = {path.name for path in (app.path / "all").iterdir()}
    assert written == {"agents.json", "environments.json", "memories.json", "prompts.json", "tools.json"}
    assert "memories in all/memories.json" in done.err.replace(str(app.path), "")
    taken = other.run("components", "import", app.path / "all", "--trust", "--json").json
    assert {Path(one["path"]).name for one in taken} == written
    assert other.run("components", "list").code == 0


def test_nothing_is_overwritten(app: Folder) -> None:
    app.write("mine.json", "precious")
    done = app.run("tools", "export", "mine.json")
    assert (done.code, done.error) == (2, "mine.json is there already; remove it, or choose another name")
    assert (app.path / "mine.json").read_text() == "precious"
    nowhere = app.run("tools", "export", "mine.json/deeper.json")
    assert nowhere.code == 2 and "cannot be written" in nowhere.error


@pytest.mark.long
def test_files_that_are_none(app: Folder, other: Folder) -> None:
    for name, text, sentence in [
        ("no.json", "{", "is no saved registry: "),
        ("list.json", "[]", "is no saved registry; give a file that `components export` wrote"),
        (
            "newer.json",
            '{"agentorchestra_registry": 99, "kind": "tool"}',
            "has the format 99, agentorchestra here reads up to 1",
        ),
        (
            "kind.json",
            '{"agentorchestra_registry": 1, "kind": "x", "changes": {}}',
            "of the kind 'x'; the kinds are tool",
        ),
        ("deep.json", "[" * 200_000, "is no saved registry"),
    ]:
        other.write(name, text)
        done = other.run("components", "import", name)
        assert (done.code, done.out) == (2, ""), name
        assert sentence in done.error and "Traceback" not in done.err
    missing = other.run("components", "import", "missing.json")
    assert missing.code == 2 and "missing.json" in missing.error
    (other.path / "empty").mkdir()
    assert "holds no tools.json or environments.json or" in other.run("components", "import", "empty").error
    # A text that was changed on the way.
    app.run("tools", "export", "mine.json")
    saved = json.loads((app.path / "mine.json").read_text())
    digest = next(iter(saved["texts"]))
    saved["texts"][digest] += "\nimport os\n"
    other.write("changed.json", json.dumps(saved))
    damaged = other.run("tools", "import", "changed.json")
    assert damaged.code == 2 and "does not match its hash" in damaged.error
    wrong = other.run("agents", "import", app.path / "mine.json")
    assert wrong.code == 2 and "holds components of the kind tool, not agent" in wrong.error
    assert "send_mail" not in other.run("tools", "list").out


def test_skills(app: Folder) -> None:
    done = app.run("components", "export", "skills", "--as", "skills", "--json").json
    folders = sorted((app.path / "skills").iterdir())
    assert sorted(name for one in done for name in one["skills"]) == [folder.name for folder in folders]
    assert {one["kind"]: one["components"] for one in done}["tool"] > 5
    for folder in folders:
        assert validate(folder) == []
    mail = app.path / "skills" / "send-mail"
    assert read_properties(mail).description.startswith("Send a mail.")
    assert "- `to` (string): the address." in (mail / "SKILL.md").read_text()
    assert (app.path / "skills" / "reporter-prompt").is_dir() and (app.path / "skills" / "reporter").is_dir()
    assert app.run("tools", "export", "skills", "--as", "skills").code == 0
    (app.path / "hand" / "send-mail").mkdir(parents=True)
    refused = app.run("tools", "export", "hand", "--as", "skills")
    assert refused.code == 2
    assert "send-mail is there already and is no export of tool send_mail" in refused.error
    assert [path.name for path in (app.path / "hand").iterdir()] == ["send-mail"]
