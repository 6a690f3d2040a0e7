"""Prompts made of other prompts, and parts of prompts that may be rewritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import PromptError, VersionError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.log.store import MemoryStore
from agentorchestra.tea.prompts.catalog import PromptLibrary
from agentorchestra.tea.prompts.composition import expand
from agentorchestra.tea.prompts.prompt import Prompt, parse_prompt
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace, packaged_prompts
from tests.support.runs import whole_runs


def written(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        head, _, body = text.partition("|")
        (folder / f"{name}.md").write_text(f"---\nname: {name}\nversion: 1.0.0\n{head}---\n{body}", encoding="utf-8")
    return folder


STYLE = "variables: [who]\n|Be kind to {{ who }}.\n"
HEAD = '|{% include "style" %}\n'
MAIN = 'variables: [task]\n|<a>\n{% include "head" %}\n</a>\n{{ task }} {% include "style" %}!\n'


def library(folder: Path, **files: str) -> PromptLibrary:
    return PromptLibrary([written(folder, **files)])


def test_a_module_stands_where_it_is_included(tmp_path: Path) -> None:
    main = library(tmp_path, style=STYLE, head=HEAD, main=MAIN).get("main")
    assert main.render(task="Go.", who="Ann") == "<a>\nBe kind to Ann.\n</a>\nGo. Be kind to Ann.!"
    assert main.variables == ("task", "who")
    assert main.modules == ("head@1.0.0", "style@1.0.0")
    # The text is whole: it needs no other prompt, and is the same prompt.
    again = parse_prompt(main.text, label="kept")
    assert again == main


def test_a_change_of_a_module_changes_the_identity_of_what_includes_it(tmp_path: Path) -> None:
    one = library(tmp_path / "a", style=STYLE, head=HEAD, main=MAIN, other="|x\n")
    two = library(tmp_path / "b", style=STYLE.replace("kind", "good"), head=HEAD, main=MAIN, other="|x\n")
    for name in ("style", "head", "main"):
        assert one.get(name).content_hash != two.get(name).content_hash
    assert one.get("other") == two.get("other")
    assert one.pins()["main"].source in one.texts()


def test_a_workspaces_module_is_used_by_the_packaged_prompts(tmp_path: Path) -> None:
    packaged = written(tmp_path / "packaged", style=STYLE, head=HEAD, main=MAIN)
    own = written(tmp_path / "own", style=STYLE.replace("kind", "stern"))
    mixed = PromptLibrary([packaged], own)
    assert "stern" in mixed.get("main").render(task="", who="")
    assert mixed.builtin == ()  # each of them is another prompt now
    given = PromptLibrary([packaged]).with_texts({"style": mixed.get("style").text})
    assert given.get("main") == mixed.get("main") and given.get("main").modules[0] == "head@1.0.0"


def test_what_a_module_needs_the_replaced_prompt_must_be_given(tmp_path: Path) -> None:
    packaged = written(tmp_path / "packaged", style=STYLE, main="variables: [task]\n|{{ task }}\n")
    own = written(tmp_path / "own", main='variables: [task]\n|{{ task }} {% include "style" %}\n')
    with pytest.raises(PromptError, match="uses who, which this prompt is not given; its variables: task"):
        PromptLibrary([packaged], own)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"main": '|{% include "stile" %}\n', "style": "|x"},
            "includes 'stile', which is not there; did you mean 'style'",
        ),
        ({"a": '|{% include "b" %}', "b": '|{% include "a" %}'}, "includes itself: a -> b -> a"),
        ({"a": '|{% include "a" %}'}, "includes itself: a -> a"),
        ({"a": "variables: [x]\n|one\n{% include x %}"}, "loads another template in line 7; the one way is"),
        ({"a": '|{% import "b" as b %}', "b": "|x"}, "loads another template in line 5"),
        ({"a": '|{% extends "b" %}', "b": "|x"}, "loads another template"),
        ({"a": '|{% include "b" %}', "b": "|{{ y }}"}, "b.md uses y, which it does not declare"),
    ],
)
def test_what_cannot_be_composed_is_a_sentence(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(PromptError, match=said):
        PromptLibrary([], written(tmp_path, **files))


def test_modules_cannot_grow_without_end(tmp_path: Path) -> None:
    files = {"m0": "|" + "x" * 1000}
    files |= {f"m{n}": f'|{{% include "m{n - 1}" %}}' * 1 + f'\n{{% include "m{n - 1}" %}}\n' * 9 for n in range(1, 6)}
    with pytest.raises(PromptError, match="more than 1,000,000 characters with its modules"):
        library(tmp_path, **files)
    with pytest.raises(PromptError, match="a prompt includes 'x', and no other prompts are at hand"):
        expand('{% include "x" %}', None, label="a prompt")


@pytest.mark.parametrize(
    "line", ["{# part: " + " " * 200_000, " " * 200_000 + "{#", "{% include " * 20_000, '{% include "' + "a" * 200_000]
)
def test_hostile_marks_take_no_time(line: str) -> None:
    with pytest.raises(PromptError):
        parse_prompt(f"---\nname: p\nversion: 1.0.0\ntrainable: [x]\n---\n{line}\n", label="p.md")


RULES = """---
name: p
version: 1.0.0
variables: [task]
trainable: [rules, tone]
---
<rules>
{# part: rules #}
- Look twice.
{# end #}
</rules>
{% if task %}
  {# part: tone #}
{{ task }}, kindly.
  {# end #}
{% endif %}
"""


def test_parts_are_listed_read_and_rewritten() -> None:
    prompt = parse_prompt(RULES, label="p.md")
    assert prompt.parts == {"rules": "- Look twice.\n", "tone": "{{ task }}, kindly.\n"}
    assert prompt.render(task="Go") == "<rules>\n- Look twice.\n</rules>\nGo, kindly."
    other = prompt.with_part("rules", "- Look once.\n- Then go: {{ task }}", version="1.1.0")
    assert other.render(task="Go") == "<rules>\n- Look once.\n- Then go: Go\n</rules>\nGo, kindly."
    assert (other.version, other.trainable) == ("1.1.0", ("rules", "tone"))
    assert other.content_hash != prompt.content_hash
    assert other.with_part("rules", prompt.parts["rules"], version="1.0.0") == prompt
    assert prompt.with_part("tone", "").render(task="Go") == "<rules>\n- Look twice.\n</rules>"


def test_marks_change_nothing_of_what_is_rendered() -> None:
    plain = "\n".join(line for line in RULES.split("\n") if "{#" not in line and "trainable" not in line)
    for task in ("", "Go"):
        expected = parse_prompt(plain, label="p.md").render(task=task)
        assert parse_prompt(RULES, label="p.md").render(task=task) == expected


@pytest.mark.parametrize(
    ("part", "text", "said"),
    [
        ("rule", "x", "has no trainable part 'rule'; its trainable parts: rules, tone"),
        ("rules", "{{ budget }}", "uses budget, which it does not declare; its variables: task"),
        ("rules", "{% endif %}", "the text for the part 'rules' of the prompt 'p' is not a template by itself"),
        ("rules", "{% if task %}open", "is not a template by itself"),
        ("rules", "{# end #}\n{# part: rules2 #}", "holds marks of parts or includes"),
        ("rules", '{% include "other" %}', "holds marks of parts or includes"),
        ("rules", "{{ ().__class__ }}{{ task", "is not a template by itself"),
    ],
)
def test_a_part_that_breaks_the_prompt_is_refused(part: str, text: str, said: str) -> None:
    with pytest.raises(PromptError, match=said):
        parse_prompt(RULES, label="p.md").with_part(part, text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{# end #}\n</rules>", "</rules>", "has the part 'tone' inside another part"),
        ("  {# end #}\n{% endif %}", "{% endif %}", "does not end its part 'tone'"),
        ("part: tone", "part: rules", "has the part 'rules' twice"),
        ("{# part: rules #}\n", "", "ends a part that it did not begin"),
        ("part: rules", "part: the rules", "has a part named 'the rules'"),
        ("[rules, tone]", "[rules, voice]", r"has no part 'voice' \(its parts: rules, tone\)"),
        ("[rules, tone]", "rules", "trainable of p.md is 'rules'; give a list of names"),
    ],
)
def test_marks_that_do_not_fit_are_a_sentence(old: str, new: str, said: str) -> None:
    assert RULES.count(old) == 1
    with pytest.raises(PromptError, match=said):
        parse_prompt(RULES.replace(old, new), label="p.md")


def test_parts_of_a_module_are_rewritten_in_the_composed_prompt(tmp_path: Path) -> None:
    parted = "trainable: [tone]\n|{# part: tone #}\nBe kind.\n{# end #}\n"
    main = library(tmp_path, style=parted, main='trainable: [tone]\n|{% include "style" %}\nGo.\n').get("main")
    assert main.parts == {"tone": "Be kind.\n"}
    assert main.with_part("tone", "Be firm.").render() == "Be firm.\nGo."


def test_the_packaged_prompts_have_parts_that_can_be_rewritten() -> None:
    prompts: dict[str, Prompt] = {name: (lib := PromptLibrary(packaged_prompts())).get(name) for name in LEARNED}
    for prompt in prompts.values():
        assert prompt.trainable, prompt.name
        for part, text in prompt.parts.items():
            assert text.strip(), part
            assert prompt.with_part(part, text) == prompt
            assert prompt.with_part(part, "Be brief.").parts[part] == "Be brief.\n"
    assert lib.names


LEARNED = ("react", "planner", "deep_analyzer", "worker", "reporter", "summary", "memory_summary", "memory_insights")


async def test_a_rewritten_part_is_a_version_that_agents_speak_with(tmp_path: Path) -> None:
    asked: list[str] = []

    def model(request: ModelRequest) -> ModelResponse:
        asked.append(request.messages[0].text)
        return decide(calls=[call("done", answer="yes")])

    async with Workspace(tmp_path / "ws", store=MemoryStore(), environ={}) as ws:
        options: dict[str, Any] = {"model": ScriptedModel(model), "system": "react"}
        names = [one.name for one in await ws.components.prompts.vars("react")]
        assert names == ["profile", "task_rules", "reasoning_rules"]
        first = await ws.run("Is it?", **options)
        changed = await ws.components.prompts.setvars("react", {"reasoning_rules": "- Think of the sea."})
        second = await ws.run("Is it?", **options)
        assert "Think of the sea" not in asked[0] and "\n- Think of the sea.\n" in asked[1]
        assert "another way" in asked[0] and "another way" not in asked[1]
        versions = {record.id: record.manifest.prompts["react"].version for record in await whole_runs(ws)}
        assert versions[second.run_id] == changed.version != versions[first.run_id]
        with pytest.raises(PromptError, match="uses budget, which it does not declare"):
            await ws.components.prompts.setvars("react", {"profile": "{{ budget }}"})
        with pytest.raises(VersionError, match="has no variable 'rules'; its variables: profile, task_rules"):
            await ws.components.prompts.setvars("react", {"rules": "x"})


def test_what_stands_behind_the_line_user_goes_into_the_users_message(tmp_path: Path) -> None:
    parted = "variables: [task]\n|Be brief.\n{# user #}\n<task>\n{{ task }}\n</task>\n"
    one = library(tmp_path, asked=parted, plain="|Be brief.\n")
    assert one.get("asked").messages(task="Go.\n{# user #}\nStay.") == (
        "Be brief.",
        "<task>\nGo.\n{# user #}\nStay.\n</task>",
    )
    assert one.get("asked").render(task="Go.") == "Be brief.\n<task>\nGo.\n</task>"
    assert one.get("plain").messages() == ("Be brief.", "")
    with pytest.raises(PromptError, match="'task' is missing"):
        one.get("asked").messages()
