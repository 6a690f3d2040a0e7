"""Prompts: files, overrides, rendering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra.core.errors import PromptError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.spec import Pinned
from agentorchestra.tea.prompts.catalog import PromptLibrary, load_prompt
from agentorchestra.tea.prompts.prompt import parse_prompt
from agentorchestra.workspace import packaged_prompts

TASK = """---
name: task
version: 1.2.0
description: What is asked.
variables: [task, files]
---
<task>
{{ task }}
</task>
{% for file in files %}
- {{ file.name }}
{% endfor %}
"""
PACKAGED = packaged_prompts()


def _file(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path


def _text(body: str, variables: str = "[task]", name: str = "task") -> str:
    return f"---\nname: {name}\nversion: 1.0.0\nvariables: {variables}\n---\n{body}"


def _refused(text: str) -> str:
    with pytest.raises(PromptError) as caught:
        parse_prompt(text, label="task.md")
    return str(caught.value)


# -- one prompt --------------------------------------------------------------------------------------------------------


def test_a_prompt_and_its_parts(tmp_path: Path) -> None:
    prompt = load_prompt(_file(tmp_path, "task", TASK))
    assert (prompt.name, prompt.version, prompt.component) == ("task", "1.2.0", "task@1.2.0")
    assert (prompt.description, prompt.variables) == ("What is asked.", ("task", "files"))
    assert prompt.content_hash == sha256_text(TASK)
    assert prompt.render(task="Sum?", files=[{"name": "a"}, {"name": "b"}]) == "<task>\nSum?\n</task>\n- a\n- b"


@given(st.text() | st.sampled_from(["{{ 7 * 7 }}", "{% for x in y %}", "{# no #}", "{{ self }}", "<b>&amp;</b>"]))
def test_values_are_inserted_and_never_rendered(value: str) -> None:
    prompt = parse_prompt(_text("[{{ task }}]"), label="task.md")
    assert prompt.render(task=value) == f"[{value}]"
    assert prompt.render(task=value) == prompt.render(task=value)


def test_line_endings_and_a_mark_at_the_beginning_do_not_matter() -> None:
    prompt = parse_prompt("\ufeff" + TASK.replace("\n", "\r\n"), label="task.md")
    assert prompt.render(task="a", files=[]) == "<task>\na\n</task>"


def test_a_rule_in_the_body_is_text() -> None:
    prompt = parse_prompt(_text("a\n---\nb", "[]"), label="task.md")
    assert prompt.render() == "a\n---\nb"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "prompt 'task': 'files' is missing, 'task' is missing; its variables: task, files"),
        ({"task": "", "files": [], "x": 1}, "prompt 'task': 'x' is unknown; its variables: task, files"),
        ({"task": "", "files": 3}, "prompt 'task' cannot be rendered: 'int' object is not iterable; correct its file"),
        ({"task": "", "files": [{}]}, "cannot be rendered: 'dict object' has no attribute 'name'"),
    ],
)
def test_rendering_needs_its_variables(values: dict[str, Any], said: str) -> None:
    with pytest.raises(PromptError) as caught:
        parse_prompt(TASK, label="task.md").render(**values)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "task.md has no front matter; begin it with the lines ---, name: ..., version: 1.0.0, ---"),
        ("---\nname: task\n", "task.md has no front matter"),
        ("---\nname: [\n---\n", "the front matter of task.md is not YAML"),
        ("---\n- a\n---\n", "the front matter of task.md is not a list of fields"),
        ("---\nversion: 1.0.0\n---\n", "the front matter of task.md has no name; add e.g. name: task"),
        ("---\nname: task\n---\n", "has no version; add e.g. version: 1.0.0"),
        ("---\nname: task\nversion: 1.0\n---\n", "task.md has the version '1.0'; versions look like 1.2.0"),
        ("---\nname: a b\nversion: 1.0.0\n---\n", "task.md has the name 'a b'; use letters"),
        ("---\nname: task\nversion: 1.0.0\nauthor: me\n---\n", "the unknown field 'author'; it has name, version"),
        (_text("", "task"), "the variables of task.md are 'task'; give a list of names"),
        (_text("", "[a b]"), "the variables of task.md are ['a b']"),
        (_text("a\n{{ task"), "task.md is not a template: unexpected end of template"),
        (_text("a\n{% if %}"), "line 7; correct it"),
        (_text("{{ task | random }}"), "task.md is not a template: No filter named 'random'"),
        (_text("{{ task }} {{ lipsum() }}"), "task.md uses lipsum, which it does not declare; its variables: task"),
        (_text("{{ other }}", "[]"), "task.md uses other, which it does not declare; its variables: none"),
    ],
)
def test_a_file_that_is_no_prompt(text: str, said: str) -> None:
    assert said in _refused(text)


@pytest.mark.parametrize("body", ["{{ task.__class__.__mro__ }}", "{{ ''.__class__.__base__.__subclasses__() }}"])
def test_a_template_stays_inside(body: str) -> None:
    with pytest.raises(PromptError, match="cannot be rendered"):
        parse_prompt(_text(body), label="task.md").render(task="a")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"none\.md cannot be read"):
        load_prompt(tmp_path / "none.md")
    (tmp_path / "bytes.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PromptError, match=r"bytes\.md cannot be read"):
        load_prompt(tmp_path / "bytes.md")
    with pytest.raises(PromptError, match=r"names its prompt 'task'; name the file task\.md, or the prompt after it"):
        load_prompt(_file(tmp_path, "job", TASK))


# -- the library -------------------------------------------------------------------------------------------------------


def test_the_packaged_prompts_load() -> None:
    library = PromptLibrary(PACKAGED)
    assert {"react", "task", "tail"} <= set(library.names)
    assert list(library.pins()) == list(library.names)
    task = library.get("task")
    assert library.pins()["task"] == Pinned(
        version=task.version, content_hash=task.content_hash, source=task.content_hash
    )
    assert library.texts()[task.content_hash] == task.text
    assert sha256_text(task.text) == task.content_hash


def test_other_texts_for_prompts() -> None:
    library = PromptLibrary(PACKAGED)
    task = library.get("task")
    other = library.with_texts({"task": task.text + "Be brief.", "own": _text("Say {{ task }}.", name="own")})
    assert other.get("task").template.endswith("Be brief.")
    assert other.get("task").variables == task.variables
    assert library.get("task") == task
    assert "own" in other.names
    with pytest.raises(PromptError, match="the text given for the prompt 'task' uses budget, which"):
        library.with_texts({"task": _text("{{ budget }}", "[budget]")})
    with pytest.raises(PromptError, match="says that its name is 'task'"):
        library.with_texts({"tail": task.text})


_CITED = [{"source": "a.txt", "place": "line 3", "quote": "{{ 8111 * 9 }}"}]
_FULL: dict[str, Any] = {
    "native": True,
    "max_tools": 4,
    "max_steps": 9,
    "step": 9,
    "repeats": 3,
    "stalls": 3,
    "has_todo": True,
    "must_answer": "budget",
    "tools": [{"name": "add", "description": "Adds. {{ 8111 * 9 }}", "parameters": "{}"}],
    "environments": [{"name": "board", "rules": "Take a field. {{ 8111 * 9 }}"}],
    "workers": [{"name": "reader", "purpose": "Reads. {{ 8111 * 9 }}"}],
    "actions": [{"name": "add", "purpose": "Adds. {{ 8111 * 9 }}"}],
    "models": [{"name": "larch", "price": "", "guide": ""}, {"name": "sprig", "price": "", "guide": "Fast."}],
    "agents": [{"name": "helper", "description": "Helps. {{ 8111 * 9 }}"}],
    "members": [{"name": "helper", "description": "Helps. {{ 8111 * 9 }}"}],
    "earlier": [{"task": "{{ 8111 * 9 }}", "answer": "1", "status": "completed"}],
    "files": [{"name": "a.txt", "media_type": "text/plain", "size": 3}],
    "sources": _CITED,
    "misquoted": _CITED,
    "unfound": _CITED,
    "unknown": ["{{ 8111 * 9 }}"],
    "trials": [{"score": "1", "cost": "$0.10", "models": "larch $0.10", "task": "{{ 8111 * 9 }}"}],
    "tried": [{"version": "1.0.1", "accuracy": "50", "cost": "$0.10", "why": "{{ 8111 * 9 }}"}],
    "left_out": _CITED,
    "figures": ["12"],
    "engines": [{"name": "wiki", "about": "{{ 8111 * 9 }}"}],
    "asked": [{"query": "{{ 8111 * 9 }}", "failed": "no answer"}],
    "drafts": [{"query": "{{ 8111 * 9 }}", "since": "2019", "until": "", "language": "en"}],
    "conflicts": [{"about": "{{ 8111 * 9 }}", "marks": ["E1", "E2"], "believe": ""}],
    "tables": [{"name": "{{ 8111 * 9 }}", "rows": 3}],
    "rounds": [{"status": "partial", "answer": "{{ 8111 * 9 }}", "tried": ["a look"]}],
    "experts": [{"name": "{{ 8111 * 9 }}", "letter": "A", "silent": False}],
    "remembered": "long_term",
    "others": [{"name": "{{ 8111 * 9 }}", "letter": "B", "silent": True}],
}
"""Variables that are more than text; the others are given as text."""


@pytest.mark.parametrize("name", PromptLibrary(PACKAGED).names)
def test_every_packaged_prompt_renders_full_and_empty(name: str) -> None:
    prompt = PromptLibrary(PACKAGED).get(name)
    # The library takes them for checked.
    assert parse_prompt(prompt.text, label=name) == prompt
    full = {variable: _FULL.get(variable, f"{variable} {{{{ 8111 * 9 }}}}") for variable in prompt.variables}
    shown = prompt.render(**full)
    for off in ({"code": False}, {"native": False}, {"code": False, "native": False}):
        shown += prompt.render(**full | off) if off.keys() <= full.keys() else ""
    # Some only choose what is shown, and insert nothing.
    assert ("{{ 8111 * 9 }}" in shown) == ("{{" in prompt.template) and "72999" not in shown
    empty = {variable: type(value)() for variable, value in full.items()}
    assert prompt.render(**empty) == prompt.render(**empty)
    assert not prompt.variables or prompt.render(**empty) != shown


def test_an_application_brings_prompts_of_its_own(tmp_path: Path) -> None:
    own, overrides = tmp_path / "own", tmp_path / "prompts"
    own.mkdir()
    overrides.mkdir()
    for name in ("clerk", "scribe"):
        _file(own, name, TASK.replace("name: task", f"name: {name}"))
    _file(overrides, "clerk", TASK.replace("name: task", "name: clerk").replace("1.2.0", "9.0.0"))
    library = PromptLibrary(PACKAGED, overrides, app_folders=[own])
    assert library.get("scribe").version != "9.0.0" and library.get("clerk").version == "9.0.0"
    with pytest.raises(PromptError, match=r"the folder of prompts .*nothing is not there"):
        PromptLibrary(PACKAGED, app_folders=[tmp_path / "nothing"])


def test_an_unknown_name_gives_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"no prompt 'tsk'; the prompts: .*react, .*task"):
        PromptLibrary(PACKAGED).get("tsk")
    with pytest.raises(PromptError, match=r"no prompt 'a'; the prompts: none"):
        PromptLibrary([]).get("a")


def test_a_workspaces_file_replaces_the_packaged_one(tmp_path: Path) -> None:
    _file(tmp_path / "packaged", "task", TASK)
    _file(tmp_path / "mine", "task", _text("Please: {{ task }}"))
    _file(tmp_path / "mine", "new", _text("New.", "[]", name="new"))
    (tmp_path / "mine" / "README.md").write_text("What these are.")
    (tmp_path / "mine" / "notes.txt").write_text("Not a prompt.")
    library = PromptLibrary([tmp_path / "packaged"], tmp_path / "mine")
    assert library.names == ("new", "task")
    # It is given everything the packaged one is given, and may ignore some of it.
    assert library.get("task").render(task="sum", files=[]) == "Please: sum"
    assert library.pins()["task"].version == "1.0.0"
    assert library.get("new").render() == "New."
    assert library.pins() != PromptLibrary([tmp_path / "packaged"]).pins()


def test_an_override_cannot_use_what_it_is_not_given(tmp_path: Path) -> None:
    _file(tmp_path / "packaged", "task", TASK)
    _file(tmp_path / "mine", "task", _text("{{ task }} {{ budget }}", "[task, budget]"))
    with pytest.raises(PromptError, match=r"task\.md uses budget, which this prompt is not given; .*: task, files"):
        PromptLibrary([tmp_path / "packaged"], tmp_path / "mine")


def test_a_folder_that_is_not_there_overrides_nothing(tmp_path: Path) -> None:
    assert PromptLibrary(PACKAGED, tmp_path / "none").pins() == PromptLibrary(PACKAGED).pins()


def test_the_later_package_holds(tmp_path: Path) -> None:
    _file(tmp_path / "a", "task", TASK)
    _file(tmp_path / "b", "task", _text("b", "[]"))
    assert PromptLibrary([tmp_path / "a", tmp_path / "b"]).get("task").render() == "b"
