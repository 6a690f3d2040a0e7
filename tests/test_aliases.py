"""Recorded texts import modules by former names; nothing else does."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

from agentorchestra.core.errors import SourceError
from agentorchestra.tea.programs.dynamic import load_module
from agentorchestra.tea.programs.namespaces import namespace_of, within

TABLE = (files("agentorchestra") / "former_modules.txt").read_text(encoding="utf-8")
LINES = [tuple(line.split()) for line in TABLE.splitlines() if not line.startswith("#")]
INSIDE_A_SANDBOX = ("sandbox._", "tea.programs._")
"""Modules that only the interpreter inside of a sandbox imports."""
MOVED = [pair for pair in LINES if ":" not in pair[0] and not pair[1].startswith(INSIDE_A_SANDBOX)]


def _present(name: str) -> str:
    return next((_present(now) for before, now in MOVED if before == name and not _is_there(name)), name)


def _is_there(name: str) -> bool:
    try:
        import_module(f"agentorchestra.{name}")
    except ModuleNotFoundError:
        return False
    return True


def test_a_recorded_text_gets_what_the_present_module_has() -> None:
    for before, now in MOVED:
        present = import_module(f"agentorchestra.{_present(now)}")
        own = [
            name
            for name, value in vars(present).items()
            if not name.startswith("__") and getattr(value, "__module__", "") == present.__name__
            if not any(line[0] == f"{_present(now)}:{name}" for line in LINES)
        ]
        lines = [f"from agentorchestra.{before} import {name} as _{n}" for n, name in enumerate(own)]
        text = "\n".join(
            [
                f"import agentorchestra.{before} as module, agentorchestra.{before}",
                *lines,
                f"whole = agentorchestra.{before}",
            ]
        )
        loaded = load_module(text, label=before)
        for n, name in enumerate(own):
            value = getattr(present, name)
            assert getattr(loaded, f"_{n}") is value, before
            assert getattr(loaded.module, name) is value, before
        assert loaded.whole.__name__ == loaded.module.__name__


def test_a_name_that_is_another_now_is_the_present_one() -> None:
    renamed = [pair for pair in LINES if ":" in pair[0]]
    assert renamed
    for before, now in renamed:
        module, _, name = before.partition(":")
        home, _, present = now.partition(":")
        path = f"agentorchestra.{module}".rstrip(".")
        text = f"from {path} import {name} as member\nimport {path} as module"
        loaded = load_module(text, label=before)
        value = getattr(import_module(f"agentorchestra.{home}"), present)
        assert loaded.member is value and getattr(loaded.module, name) is value
        # The same name in another form is for recorded texts alone.
        assert name == present or not hasattr(import_module(f"agentorchestra.{home}"), name)


@pytest.mark.parametrize("module", ["agentorchestra", "agentorchestra.tea.environment"])
def test_a_recorded_environment_says_what_its_actions_touch_in_the_words_of_its_time(module: str) -> None:
    text = f"""
import agentorchestra
from {module} import ActionEnvironment, action

class Till(ActionEnvironment):
    @action
    def put(self, amount: int) -> None: ...

    @action(mutates=False)
    def look(self) -> int: ...

    @action(tags=("send", "network"), before=[agentorchestra.Condition("it is open", lambda self, given: True)])
    def pay(self) -> None: ...

    @action(mutates=False, tags=["execute"])
    def count(self) -> int: ...

    @agentorchestra.action(composite=True)
    async def put_twice(self) -> None: ...

    @action(effect=("read", "network"))
    def rate(self) -> float: ...
"""
    till = load_module(text).Till()
    touched = {
        schema.name: (till.mutates(schema.name), {*map(str, till.tags(schema.name))}, till.composes(schema.name))
        for schema in till.actions()
    }
    assert touched == {
        "put": (True, set(), False),
        "look": (False, set(), False),
        "pay": (True, {"send", "network"}, False),
        "count": (False, {"execute"}, False),
        "put_twice": (False, set(), True),
        "rate": (False, {"read", "network"}, False),
    }
    assert [condition.text for condition in till.conditions("pay").before] == ["it is open"]


def test_every_form_of_an_import_finds_former_names() -> None:
    text = """
import agentorchestra.runtime.bundle.checking as checking
from agentorchestra.runtime import bundle, policy
from agentorchestra.log import store
from agentorchestra.tea.tool import *
from .tool import tool as again

def later():
    from agentorchestra.runtime.store.sqlite import SqliteStore
    return SqliteStore
"""
    loaded = load_module(text, package="agentorchestra.tea")
    assert loaded.checking is import_module("agentorchestra.log.bundle.checks")
    assert loaded.bundle.checking is loaded.checking
    assert loaded.policy is import_module("agentorchestra.trust.policy")
    assert loaded.store is import_module("agentorchestra.log.store")
    assert loaded.Tool is import_module("agentorchestra.tea.calling.tool").Tool and loaded.again is loaded.tool
    assert loaded.later() is import_module("agentorchestra.log.store.sqlite").SqliteStore


def test_a_text_of_a_program_with_a_namespace_finds_former_names_too(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for folder in ("one", "two"):
        (tmp_path / folder / "own_words.py").write_text(f"WORD = {folder!r}\n", encoding="utf-8")
    namespace_of(tmp_path / "one")
    with within(namespace_of(tmp_path / "two")):
        loaded = load_module("from own_words import WORD\nfrom agentorchestra.tea.tool import tool")
    assert loaded.WORD == "two" and loaded.tool is import_module("agentorchestra.tea.calling.tool").tool


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import agentorchestra.runtime.nothing", r"No module named 'agentorchestra\.runtime\.nothing'"),
        ("import agentorchestra.runtime.store.nothing as x", r"No module named 'agentorchestra\.runtime\.store"),
        ("from agentorchestra.environments.files import nothing", "cannot import name 'nothing'"),
        ("from agentorchestra.tea.tool import nothing", "cannot import name 'nothing'"),
        ("import agentorchestra.tea\nagentorchestra.tea.nothing", "nothing"),
        ("from .nothing import x", "attempted relative import"),
    ],
)
def test_what_never_was_is_not_there(text: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        load_module(text)


def test_importing_the_package_changes_no_import_of_the_process() -> None:
    code = """
import sys
before = [*sys.meta_path]
import agentorchestra
assert sys.meta_path == before, sys.meta_path
for name in ("agentorchestra.tea.tool", "agentorchestra.runtime.store.sqlite"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise AssertionError(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
