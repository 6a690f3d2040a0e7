"""`setup` and `models`: by options, and at a real terminal, with a model server on the loopback address."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.cli.workspaces import workspace_of_arm
from agentorchestra.evaluation.plan import Arm
from agentorchestra.testing import LoopbackModelServer, ServerScript, http_error
from agentorchestra.workspace import variables
from tests.cli.screen import ProcessScreen
from tests.cli.support import QUESTION, Folder, clean_environment
from tests.support.keyrings import FILE_VARIABLE, system_keyring
from tests.support.patience import LONGEST_S

__all__ = ["system_keyring"]

KEY = "loc4l-secret-0123456789"
NO_KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
NEITHER = ("--search", "no", "--browser", "no")


@contextmanager
def serving(script: ServerScript = "Hello!", key: str | None = None) -> Iterator[LoopbackModelServer]:
    """A model server in a thread of its own: commands run in this one."""
    loop, server = asyncio.new_event_loop(), LoopbackModelServer(script, key=key)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(LONGEST_S)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(LONGEST_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LONGEST_S)
        loop.close()


def test_a_server_by_options_and_a_run_with_it(folder: Folder) -> None:
    with serving() as server:
        done = folder.run("setup", "--base-url", server.base_url, "--model", "qwen", *NEITHER)
        assert (done.code, "it answered ($0)" in done.err) == (0, True), done.err
        assert done.out.splitlines()[0].endswith(f"default model is local (openai:qwen at {server.base_url})")
        assert len(done.out.splitlines()) == 5  # that line, "next:", three commands
        assert folder.run("run", QUESTION).out == "Hello!\n"
        checked = folder.run("models", "--check")
        assert checked.code == 0 and "local: it answered ($0)" in checked.out
        (row,) = folder.run("models", "--json", "--check").json["models"]
    assert (row["name"], row["uses"], row["key"], row["dollars"]) == ("local", ["default"], "", [0, 0])
    assert row["check"]["status"] == "answered" and row["check"]["usage"]["output_tokens"] > 0
    assert server.requests[0]["messages"] == [{"role": "user", "content": "Hello"}]
    gone = folder.run("models", "--check")
    assert gone.code == 1 and "nothing listens at" in gone.out


def test_a_key_from_stdin_lies_in_the_env_file_and_nowhere_else(folder: Folder) -> None:
    """The settings that are there keep their lines; Git is asked about the file; a run sends the key."""
    folder.write("agentorchestra.toml", "# of mine\nmax_steps = 7 # few\n")
    folder.write(".env", "OTHER=1\n")
    subprocess.run(["git", "init", "-q"], cwd=folder.path, check=True)
    with serving(key=KEY) as server:
        address = server.base_url
        words = ("setup", "--base-url", address, "--model", "m", "--key-stdin", "--json", *NEITHER)
        refused = folder.call(*words, stdin=b"wrong-key-0123\n")
        assert refused.code == 1 and "check the key in MODEL_API_KEY" in refused.err
        assert "nothing was written" in refused.err and folder.path.joinpath(".env").read_text() == "OTHER=1\n"
        done = folder.call(*words, stdin=f"{KEY}\n".encode())
        assert done.code == 0, done.err
        assert "Git does not ignore .env: write .env into .gitignore" in done.err
        assert done.json["key"] == "MODEL_API_KEY" and done.json["key_store"] == "file"
        settings, env = (folder.path / "agentorchestra.toml").read_text(), folder.path / ".env"
        assert settings.startswith('model = "local"\n# of mine\nmax_steps = 7 # few\n')
        assert stat.S_IMODE(env.stat().st_mode) == 0o600 and env.read_text() == f"OTHER=1\nMODEL_API_KEY='{KEY}'\n"
        assert folder.run("run", QUESTION).out == "Hello!\n"
        shown = folder.run("models")
        assert "MODEL_API_KEY (.env)" in shown.out
        assert max(map(len, shown.out.partition("further")[0].splitlines())) <= 80
    doctor = folder.run("doctor", "--json")
    found = {one["name"]: one for one in doctor.json["checks"]}
    assert found["model local (default)"]["detail"] == (
        f"openai:m at {address}, key MODEL_API_KEY from .env; not asked; `agentorchestra models --check` does"
    )
    assert found[".env"] == {
        "name": ".env",
        "status": "warn",
        "detail": ".env is read",
        "hint": "Git does not ignore .env: write .env into .gitignore",
    }
    for text in (settings, done.out, done.err, refused.err, shown.out, doctor.out):
        assert KEY not in text and "wrong-key-0123" not in text
    assert KEY.encode() not in b"".join(one.read_bytes() for one in folder.workspace.rglob("*") if one.is_file())


def test_a_key_in_the_keyring(folder: Folder, system_keyring: Path) -> None:
    folder.environment[FILE_VARIABLE] = str(system_keyring)
    with serving(key=KEY) as server:
        words = ("setup", "--base-url", server.base_url, "--model", "m", "--key-stdin", "--key-store", "keyring")
        done = folder.call(*words, *NEITHER, stdin=KEY.encode())
        assert done.code == 0 and "the key lies in the system's keyring as MODEL_API_KEY" in done.err, done.err
        assert 'keyring = ["MODEL_API_KEY"]' in (folder.path / "agentorchestra.toml").read_text()
        assert not (folder.path / ".env").exists()
        assert folder.run("run", QUESTION).out == "Hello!\n"
    folder.environment[FILE_VARIABLE] = ""
    locked = folder.run("run", QUESTION)
    assert locked.code == 2 and "the keyring of this system cannot be used (the keyring is locked)" in locked.error
    # What needs no key asks for none.
    assert folder.run("run", QUESTION, "--model", "offline", "-f", "lease.txt").code == 0


def test_what_setup_wrote_it_changes(folder: Folder) -> None:
    """Another address, model, key and search: its own lines are written anew, and none is left of a key."""
    with serving() as first, serving(key=KEY) as second, serving() as third:
        words = ("setup", "--browser", "no", "--model")
        assert folder.run(*words, "m", "--base-url", first.base_url, "--search", "yes").code == 0
        settings = folder.path / "agentorchestra.toml"
        assert "api_key_env" not in settings.read_text() and "docs/" not in settings.read_text()
        keyed = (*words, "n", "--base-url", second.base_url, "--search", "no", "--key-stdin")
        done = folder.call(*keyed, stdin=KEY.encode())
        assert done.code == 0, done.err
        text = settings.read_text()
        assert f'base_url = "{second.base_url}"' in text and 'model = "openai:n"' in text
        assert 'api_key_env = "MODEL_API_KEY"' in text and "engines = []  #" in text
        assert folder.run("run", QUESTION).out == "Hello!\n"
        again = folder.run(*words, "n", "--base-url", second.base_url)
        assert again.code == 0 and settings.read_text() == text, "the key of this address stays in use"
        assert folder.run(*words, "o", "--base-url", third.base_url, "--search", "yes").code == 0
    assert 'api_key_env = ""' in settings.read_text() and 'engines = ["auto"]' in settings.read_text()
    wrong = folder.run("run", QUESTION, "--model", "o")
    assert wrong.code == 2 and "no model 'o': 'o' is called 'local' here" in wrong.error


@pytest.mark.long
def test_wrong_answers_are_asked_again_at_once(folder: Folder) -> None:
    with serving(key=KEY) as server:
        code, text = at_terminal(
            folder,
            {},
            [
                ("Folder of the workspace", "lease.txt\n"),
                ("the workspace lease.txt is a file", ".agentorchestra\n"),
                ("Provider, by number or name", "9\n"),
                ("no provider '9'; type a number from 1 to 5", "4\n"),
                ("Address of the server", "not an address\n"),
                ("is 'not an address'; write the whole address", "http://127.0.0.1:9/v1\n"),
                ("Model:", "\n"),
                ("Model:", "qwen\n"),
                ("Key, if the server needs one (empty for none):", "\n"),
                ("Write it all the same?", "n\n"),
                ("Address of the server [http://127.0.0.1:9/v1]:", f"{server.base_url}\n"),
                ("Model:", "qwen\n"),
                ("Key, if the server needs one (empty for none):", f"{KEY}\n"),
                ("Where is it kept?", "\n"),
                ("Search the web?", "n\n"),
                ("Use a browser?", "n\n"),
            ],
        )
    assert code == 0 and "nothing listens at http://127.0.0.1:9/v1; start the server, or check the a" in text, text
    assert (folder.path / ".env").read_text() == f"MODEL_API_KEY='{KEY}'\n" and KEY not in text


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--model", "m"), 2, "--provider is missing, and there is no terminal to ask at"),
        (("--provider", "openai"), 2, "--model is missing"),
        (("--provider", "server", "--model", "m"), 2, "--base-url is missing"),
        (("--provider", "opnai", "--model", "m"), 2, "no model 'opnai:m', did you mean 'openai:m'?"),
        (("--base-url", "127.0.0.1:1", "--model", "m"), 2, "the address (--base-url) is '127.0.0.1:1'; write the"),
        (("--provider", "offline", "--model", "m"), 2, "offline is no model of a provider"),
        (
            ("--base-url", "http://127.0.0.1:9/v1", "--model", "m"),
            1,
            "nothing listens at http://127.0.0.1:9/v1; start the server, or check the address (--base-url); noth",
        ),
        (("--provider", "offline", "--workspace", "lease.txt"), 1, "the workspace lease.txt is a file; choose another"),
        (
            ("--provider", "offline", "--workspace", "lease.txt/ws"),
            1,
            "lease.txt/agentorchestra.toml cannot be written",
        ),
        (("--provider", "openai", "--model", "m", "--key-stdin"), 2, "the key is empty, or more than one word"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    folder: Folder, words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = folder.run("setup", *words)
    assert (done.code, sentence in done.error) == (code, True), done.err
    assert sorted(one.name for one in folder.path.iterdir()) == ["lease.txt"]


def test_a_git_that_says_nothing_is_said(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(variables, "GIT_S", 0.1)
    assert variables.git_problem(folder.path / ".env") == (
        f"Git did not say within 0.1 s whether it ignores {folder.path / '.env'}: see that .gitignore names .env"
    )


def test_a_model_that_the_server_does_not_know(folder: Folder) -> None:
    with serving([http_error(404, "model 'm' not found")]) as server:
        done = folder.run("setup", "--base-url", server.base_url, "--model", "m")
    assert (
        done.code == 1
        and "does not know this model or path" in done.error
        and "check the model's name and check the address (--base-url)" in done.error
    )


def test_without_a_key_it_says_what_to_set(folder: Folder) -> None:
    done = folder.run("setup", "--provider", "openai", "--model", "gpt-5", *NEITHER)
    assert done.code == 0
    assert "openai:gpt-5 was not asked: OPENAI_API_KEY is not set; then: agentorchestra models --check" in done.err
    assert "set the key yourself: export OPENAI_API_KEY=..." in done.err
    shown = folder.run("models")
    assert "openai:gpt-5: model 'openai:gpt-5' needs a key" in shown.out
    assert "or let `agentorchestra setup` keep it" in folder.run("run", QUESTION).error


async def test_arms_of_evaluations_have_the_keys_of_the_env_file(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(".env", f"OPENAI_API_KEY={KEY}\n")
    monkeypatch.chdir(folder.path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with workspace_of_arm(folder.workspace, Arm(name="a", system="react", model="openai:gpt-5")) as ws:
        ws.models.check("openai:gpt-5")
        kept_clear_of = variables.values_of(ws.own.environ, ws.models.key_variables)
        assert kept_clear_of == {"OPENAI_API_KEY": KEY}


def test_a_setting_in_the_env_file_is_refused_by_every_command(folder: Folder) -> None:
    folder.write(".env", "AGENTORCHESTRA_MODEL=openai:gpt-5\n")
    done = folder.run("run", QUESTION)
    assert done.code == 2 and ".env holds AGENTORCHESTRA_MODEL, and settings are not read from there" in done.error
    (found,) = [one for one in folder.run("doctor", "--json").json["checks"] if one["name"] == ".env"]
    assert found["status"] == "fail"
    folder.write("agentorchestra.toml", 'env_file = ""\n')
    assert folder.run("run", QUESTION, "-f", "lease.txt").code == 0


def test_what_is_missing_is_installed_after_a_yes_and_named_after_a_no(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ddgs", None)
    monkeypatch.setitem(sys.modules, "playwright", None)
    (folder.path / "python").write_text('#!/bin/sh\necho "$@" >> commands.txt\nexit 3\n')
    (folder.path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder.path / "python"))
    done = folder.run("setup", "--provider", "offline", "--search", "yes", "--browser", "no")
    assert done.code == 0
    line = "python -m pip install 'agentorchestra[search]'"
    assert f"it ended with code 3; run it yourself: {line}" in done.err
    assert "it needs: python -m pip install 'agentorchestra[browser]'" in done.err
    assert (folder.path / "commands.txt").read_text() == "-m pip install agentorchestra[search]\n"


@pytest.mark.long
def test_a_folder_without_rights(open_folder: Folder, bound: dict[str, Any]) -> None:
    open_folder.path.chmod(0o555)
    done = open_folder.run("setup", "--provider", "offline", **bound)
    assert done.code == 1 and "change the rights of" in done.error and "choose another folder" in done.error
    assert not (open_folder.path / "agentorchestra.toml").exists()


def test_the_default_model_is_set(folder: Folder) -> None:
    wrong = folder.run("models", "set", "openai/gpt-5")
    misplaced = folder.run("models", "--workspace", "other", "set", "offline")
    assert misplaced.code == 2 and "options stand behind the word set" in misplaced.error
    assert wrong.code == 2 and not (folder.path / "agentorchestra.toml").exists()
    done = folder.run("models", "set", "openai:gpt-5", "--json")
    assert done.code == 0 and done.json["model"] == "openai:gpt-5" and "warning: model 'openai:gpt-5' needs" in done.err
    assert "needs a key" in done.json["lacks"]
    assert (folder.path / "agentorchestra.toml").read_text() == 'model = "openai:gpt-5"\n'
    assert folder.run("models", "set", "offline").code == 0
    assert folder.run("run", QUESTION, "-f", "lease.txt").code == 0
    folder.write("agentorchestra.toml", "[")
    broken = folder.run("models", "set", "offline")
    assert broken.code == 2 and "correct it or move it away" in broken.error


def at_terminal(folder: Folder, environment: dict[str, str], answers: list[tuple[str, str]]) -> tuple[int, str]:
    """`setup` at a terminal: each answer is typed when its question is there; the code, and what was on the screen."""
    screen = ProcessScreen(columns=100, lines=60)
    env = {**clean_environment(), **NO_KEYRING, **environment, "TERM": "xterm"}
    with screen.start_warm(["-m", "agentorchestra", "setup"], cwd=folder.path, environ=env) as process:
        for n, (question, answer) in enumerate(answers):
            times = sum(question == earlier for earlier, _ in answers[: n + 1])
            screen.wait(lambda question=question, times=times: screen.text.count(question) >= times)  # type: ignore[misc]
            screen.type(answer)
        code = process.wait(LONGEST_S)
        screen.end()
    os.close(screen.ours)
    assert "Traceback" not in screen.text
    return code, screen.text


def test_at_a_terminal_it_asks_and_a_wrong_key_is_typed_again(folder: Folder) -> None:
    with serving(key=KEY) as server:
        code, text = at_terminal(
            folder,
            {"OPENAI_BASE_URL": server.base_url},
            [
                ("Folder of the workspace [.agentorchestra]:", "\n"),
                ("Provider, by number or name [1]:", "\n"),
                ("Model [gpt-5]:", "gpt-x\n"),
                ("OPENAI_API_KEY (it is not shown):", "wrong-key-0123\n"),
                ("Where is it kept? (file, env) [file]:", "\n"),
                ("Its key (Ctrl-C stops; nothing is written yet):", f"{KEY}\n"),
                ("Search the web? [Y/n]:", "y\n"),
                ("Use a browser? [Y/n]:", "n\n"),
            ],
        )
    assert code == 0, text
    assert "no keyring runs on this system" in text and "check the key in OPENAI_API_KEY" in text
    assert KEY not in text and "wrong-key-0123" not in text
    assert (folder.path / ".env").read_text() == f"OPENAI_API_KEY='{KEY}'\n"
    settings = (folder.path / "agentorchestra.toml").read_text()
    assert 'model = "openai:gpt-x"\n' in settings and 'engines = ["auto"]' in settings and KEY not in settings
    assert text.rstrip().endswith("agentorchestra doctor")


@pytest.mark.long
def test_at_a_terminal_a_server_that_wants_a_key_gets_one(folder: Folder) -> None:
    with serving(key=KEY) as server:
        answers = [
            ("Folder of the workspace", "\n"),
            ("Provider, by number or name", "4\n"),
            ("Address of the server", f"{server.base_url}\n"),
            ("Model:", "qwen\n"),
            ("Key, if the server needs one (empty for none):", "\n"),
            ("Its key (Ctrl-C stops; nothing is written yet):", f"{KEY}\n"),
            ("Search the web?", "n\n"),
            ("Use a browser?", "n\n"),
        ]
        code, text = at_terminal(folder, {}, answers)
    assert code == 0 and "it answered ($0)" in text and KEY not in text
    assert (folder.path / ".env").read_text() == f"MODEL_API_KEY='{KEY}'\n"
    assert 'api_key_env = "MODEL_API_KEY"' in (folder.path / "agentorchestra.toml").read_text()


@pytest.mark.long
@pytest.mark.parametrize("key", ["\x03", "\x04"])
@pytest.mark.parametrize("after", range(5))
def test_at_a_terminal_it_is_left_at_any_question_and_nothing_is_written(folder: Folder, key: str, after: int) -> None:
    questions = [
        ("Folder of the workspace", "\n"),
        ("Provider, by number or name", "openai\n"),
        ("Model [gpt-5]:", "\n"),
        ("OPENAI_API_KEY (it is not shown):", f"{KEY}\n"),
        ("Where is it kept?", "file\n"),
    ]
    code, text = at_terminal(folder, {}, [*questions[:after], (questions[after][0], key)])
    assert code == 130 and "error: stopped" in text
    assert sorted(one.name for one in folder.path.iterdir()) == ["lease.txt"]
