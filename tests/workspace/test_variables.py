"""Variables of the process, of `.env`, of the keyring; and single values of a settings file."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import RunContext, Settings, Workspace, tool
from agentorchestra.core.errors import KeyStoreError, SettingsError
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace.settings_file import edit_text
from agentorchestra.workspace.variables import Variables, keep_in_file, keep_in_keyring
from tests.support.keyrings import FILE_VARIABLE, FileKeyring, system_keyring

__all__ = ["system_keyring"]

KEY = "loc4l-secret-0123456789"


def test_the_process_wins_over_the_file_and_the_file_over_the_keyring(tmp_path: Path, system_keyring: Path) -> None:
    for name in ("A_KEY", "B_KEY", "C_KEY", "NOT_NAMED"):
        keep_in_keyring(name, "from the keyring")
    FileKeyring.asked.clear()
    file = tmp_path / ".env"
    file.write_text("# mine\nA_KEY=from the file\nexport B_KEY='from $HOME'\nE_KEY=\nD_KEY=full\nthis is no line\n")
    held = Variables({"A_KEY": "from the process", "D_KEY": ""}, file, ("A_KEY", "B_KEY", "C_KEY", "LOST_KEY"))
    assert [held.get(name) for name in ("A_KEY", "B_KEY", "C_KEY")] == [
        "from the process",
        "from $HOME",
        "from the keyring",
    ]
    names = ("A_KEY", "B_KEY", "C_KEY", "D_KEY", "E_KEY", "NOT_NAMED", "LOST_KEY")
    assert [held.place(name) for name in names] == ["environment", str(file), "keyring", "", "", "", ""]
    assert held["C_KEY"] == dict(held)["C_KEY"] and "NOT_NAMED" not in held
    assert "A_KEY" not in FileKeyring.asked and FileKeyring.asked["C_KEY"] == 1
    assert set(held) == {"A_KEY", "B_KEY", "C_KEY", "D_KEY", "E_KEY"} and len(held) == 5
    assert held.invalid == (6,)


def test_a_keyring_that_is_locked_is_said_to_whoever_wants_the_key(
    system_keyring: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FILE_VARIABLE)
    held = Variables({"A_KEY": "set"}, None, ("A_KEY", "C_KEY"))
    assert held["A_KEY"] == "set" and "C_KEY" not in held and held.place("C_KEY") == ""
    with pytest.raises(KeyStoreError, match=r"cannot be used \(the keyring is locked\); keep the key in \.env"):
        held["C_KEY"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"AGENTORCHESTRA_MODEL=x\n", "holds AGENTORCHESTRA_MODEL, and settings are not read from there"),
        (b"A=\xff\xfe\n", "cannot be read: .*; correct it, or change the setting env_file"),
    ],
)
def test_a_file_that_says_too_much_or_cannot_be_read(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / ".env").write_bytes(content)
    with pytest.raises(SettingsError, match=sentence):
        Variables({}, tmp_path / ".env")


def test_a_key_is_written_for_its_owner_alone_beside_the_other_lines(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("# mine\nOTHER=1\nA_KEY=old # the key\nLAST=2")
    file.chmod(0o644)
    keep_in_file(file, "A_KEY", "it's=new#")
    keep_in_file(file, "B_KEY", "second")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == "# mine\nOTHER=1\nA_KEY='it\\'s=new#'\nLAST=2\nB_KEY=second\n"
    assert Variables({}, file)["A_KEY"] == "it's=new#"
    keep_in_file(tmp_path / "new", "A_KEY", "one")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    for place in ("link", "folder"):
        (tmp_path / "link").symlink_to(file) if place == "link" else (tmp_path / place).mkdir()
        with pytest.raises(KeyStoreError, match=f"{place} cannot hold the key: it is no plain file; correct that"):
            keep_in_file(tmp_path / place, "A_KEY", "one")


@tool(effect="read")
async def leak(ctx: RunContext[Any]) -> str:
    """Say what no tool should say."""
    return f"the key is {KEY}"


@pytest.mark.parametrize("store", ["file", "keyring"])
async def test_a_key_from_either_place_reaches_no_log(tmp_path: Path, system_keyring: Path, store: str) -> None:
    """A program reads `.env` only where its settings say so."""
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n" if store == "file" else "")
    keep_in_keyring("MY_KEY", KEY)
    script = [call("leak"), call("done", answer=f"It is {KEY}")]
    settings = Settings(system="react") if store == "file" else Settings(system="react", keyring=("MY_KEY",))
    if store == "file":
        assert Workspace(tmp_path / "ws").read_variables(settings).place("OPENAI_API_KEY") == ""
        settings = settings.model_copy(update={"env_file": str(tmp_path / ".env")})
    async with Workspace(tmp_path / "ws", settings=settings, tools=[leak], environ={}) as ws:
        result = await ws.run("Say it.", model=ScriptedModel(script))
        log = str([one.body for one in await ws.log.events(result.run_id)])
    name = "OPENAI_API_KEY" if store == "file" else "MY_KEY"
    assert KEY not in log and KEY not in str(result) and f"the key is secret:{name}" in log


FILE = """\
# of mine
model = "big"   # the big one

[models.big] # here
model = "openai:gpt-5"

# about searching
[search]
engines = [ "auto" ]
"""


def test_only_the_lines_concerned_change() -> None:
    changes: dict[tuple[str, ...], Any] = {
        ("model",): "local",
        ("keyring",): ["A_KEY"],
        ("models", "big", "base_url"): "http://127.0.0.1:1/v1",
        ("search", "engines"): [],
        ("models", "local", "model"): "openai:x",
        ("models", "local", "price"): {"input": 0, "output": 0},
    }
    assert (
        edit_text(FILE, changes)
        == """\
keyring = ["A_KEY"]
# of mine
model = "local"   # the big one

[models.big] # here
base_url = "http://127.0.0.1:1/v1"
model = "openai:gpt-5"

# about searching
[search]
engines = []

[models.local]
model = "openai:x"
price = { input = 0, output = 0 }
"""
    )
    assert edit_text('model = "a#b"#c\n', {("model",): "local"}) == 'model = "local"#c\n'
    assert edit_text(FILE.replace("\n", "\r\n"), {("model",): "local"}) == FILE.replace("\n", "\r\n").replace(
        'model = "big"', 'model = "local"'
    )


@pytest.mark.parametrize(
    "text",
    [
        'model = """\nbig"""\n',
        'model = "a\\"b"\n',
        'models = {big = {model = "x"}}\nmodel = "y"\n',
        '"model" = "big"\n',
        "notes = '''\n[models.local]\nmodel = \"x\"\n'''\n",
    ],
)
def test_a_file_that_no_program_should_change_is_left_and_the_line_is_named(text: str) -> None:
    changes = {("model",): "z", ("models", "local", "model"): "openai:x"}
    with pytest.raises(SettingsError, match=r'left as it is.*write into it: model = "z"; models\.local\.model = '):
        edit_text(text, changes)
    assert tomllib.loads(text)
