"""Every system solves the tasks of `examples/tasks` through the command line; only the model is ours.

The model is a function of the prompt that it sees (`tests/support/solver.py`). Names, numbers and texts of the tasks
come from a seed that is drawn for each run of the tests, so nothing can have been written down for them;
`TASKS_SEED=...` gives the seed that a failure names.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from examples.tasks.catalog import TASKS, make
from examples.tasks.running import Outcome, run_task
from examples.tasks.task import Task

from agentorchestra.core.messages import ToolCall
from agentorchestra.testing import LoopbackModelServer
from tests.cli.support import Folder, clean_environment
from tests.sandbox.support import usable
from tests.support import rules, solver

SYSTEMS = ("react", "agentorchestra", "aorchestra", "mini_swe", "oagents", "owl", "coral", "static")
OFFLINE = ("mini_swe",)
"""Systems that act in the sandbox alone, which reaches no site."""

SHORT = ("join", "arrival", "linked", "mend")
"""One task of each kind; the others take part in `make test-all`."""

QUICK = tuple(one for one in SYSTEMS if one != "static")
"""Systems that take part in each run of the tests: the other one is `oagents` with another plan."""

SEED = os.environ.get("TASKS_SEED") or str(random.SystemRandom().randrange(10**6))
"""Drawn, and the only one in the tests that is (CONTRIBUTING.md, "Tests")."""

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def named() -> None:
    """Print the seed: a test that fails, wherever it does, shows it."""
    print(f"TASKS_SEED={SEED}")


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackModelServer]:
    with solver.serving() as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path, server: LoopbackModelServer) -> Folder:
    """A folder whose settings name the model, where there is a sandbox for its programs."""
    usable("bubblewrap")
    made = Folder(tmp_path)
    model = f'model = "local"\n[models.local]\nmodel = "local-model"\nbase_url = "{server.base_url}"\n'
    made.write("agentorchestra.toml", model)
    for name in ("given", "made"):
        (tmp_path / name).mkdir()
    return made


def made_in(folder: Folder, name: str) -> Task:
    return make(name, SEED, folder.path / "given")


def run(folder: Folder, task: Task, system: str) -> Outcome:
    def command(words: Sequence[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
        folder.environment.update(variables)
        done = folder.run(*words)
        return done.code, done.out, done.err

    return run_task(task, system, folder.path / "made", workspace=folder.workspace, command=command)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("system", "name"),
    [
        (system, name) if name in SHORT and system in QUICK else pytest.param(system, name, marks=pytest.mark.long)
        for system in SYSTEMS
        for name in TASKS
        if system not in OFFLINE or name not in ("linked", "table", "compared")
    ],
)
def test_a_system_solves_a_task(folder: Folder, system: str, name: str) -> None:
    outcome = run(folder, made_in(folder, name), system)
    assert outcome.problems == [], f"TASKS_SEED={SEED}"
    assert outcome.result["system"] == system
    assert outcome.requests > 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("system", [*SYSTEMS[:2], *(pytest.param(one, marks=pytest.mark.long) for one in SYSTEMS[2:])])
def test_what_the_file_does_not_say_is_not_answered(folder: Folder, system: str) -> None:
    task = made_in(folder, "fact")
    (file,) = task.files
    text = file.read_text(encoding="utf-8")
    found = rules.answer(task.instruction, {file.name: text})
    assert found is not None
    value, ((_, sentence),) = found
    assert task.check(value, folder.path) == []
    file.write_text(text.replace(sentence, ""), encoding="utf-8")
    outcome = run(folder, task, system)
    assert outcome.problems, f"TASKS_SEED={SEED}"
    assert value not in str(outcome.result.get("answer"))


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_tests_that_contradict_each_other_are_not_passed(folder: Folder, system: str) -> None:
    task = made_in(folder, "mend")
    tests = task.files[1]
    text = tests.read_text(encoding="utf-8")
    (call, value) = re.findall(r"assertEqual\((\w+\([^)]*\)), (\d+)\)", text)[0]
    more = f"        self.assertEqual({call}, {int(value) + 1})\n"
    tests.write_text(text.replace("    def test_2(self):\n", f"    def test_2(self):\n{more}"), encoding="utf-8")
    outcome = run(folder, task, system)
    assert outcome.problems, f"TASKS_SEED={SEED}"


# -- the tasks ---------------------------------------------------------------------------------------------------------


def test_there_are_three_tasks_of_each_kind(tmp_path: Path) -> None:
    kinds: dict[str, int] = {}
    for name in TASKS:
        (tmp_path / name).mkdir()
        task = make(name, SEED, tmp_path / name)
        assert task.name == name
        kinds[task.kind] = kinds.get(task.kind, 0) + 1
    assert kinds == {"files": 3, "calculation": 3, "site": 3, "code": 3}


@pytest.mark.parametrize("name", TASKS)
def test_a_seed_makes_one_task_and_another_seed_another(tmp_path: Path, name: str) -> None:
    tasks = []
    for number, seed in enumerate(("one", "one", "other")):
        folder = tmp_path / str(number)
        folder.mkdir()
        task = make(name, seed, folder)
        tasks.append((task.instruction, task.pages, {one.name: one.read_text(encoding="utf-8") for one in task.files}))
    assert tasks[0] == tasks[1]
    assert tasks[0] != tasks[2]


@pytest.mark.parametrize("name", [name for name in TASKS if name not in ("mend", "fill_in", "turn_round")])
def test_a_check_refuses_what_is_not_the_answer(tmp_path: Path, name: str) -> None:
    task = make(name, SEED, tmp_path)
    (problem,) = task.check("nothing", tmp_path)
    assert "the answer is 'nothing'; it should be " in problem
    right = re.findall(r"it should be (?:the one number )?(.*)", problem)[0].strip("'")
    assert task.check(right, tmp_path) == []
    assert task.check(f" {right.upper()}. ", tmp_path) == []
    assert task.check(f"{right} or {right}1", tmp_path)


def test_a_check_of_code_runs_tests_of_its_own(tmp_path: Path) -> None:
    """A module that gives what the tests expect, and nothing else, passes those alone."""
    usable("bubblewrap")
    task = make("mend", SEED, tmp_path)
    made = tmp_path / "made"
    made.mkdir()
    module, tests = task.files
    assert task.check("", made) == [f"the run made no {module.name}"]
    (made / module.name).write_bytes(module.read_bytes())
    (problem,) = task.check("", made)
    assert "the check's tests fail: ['FAILED (failures=" in problem
    expected = re.findall(r"assertEqual\((\w+)(\([^)]*\)), (\d+)\)", tests.read_text(encoding="utf-8"))
    known = ", ".join(f"{given}: {value}" for _, given, value in expected)
    (made / module.name).write_text(f"def {expected[0][0]}(*given):\n    return {{{known}}}[given]\n", encoding="utf-8")
    (problem,) = task.check("", made)
    assert "the check's tests fail: ['FAILED (errors=" in problem
    change = rules.mended(task.instruction, {one.name: one.read_text(encoding="utf-8") for one in task.files})
    assert change is not None
    (made / module.name).write_text(change[1], encoding="utf-8")
    assert task.check("", made) == []


@pytest.mark.long
def test_the_tasks_run_as_a_program(folder: Folder) -> None:
    words = ["--system", "react", "--seed", SEED, "--task", "digits", "--workspace", str(folder.workspace)]
    command = [sys.executable, "-m", "examples.tasks", *words]
    environment = {**clean_environment(), "PYTHONPATH": f"{ROOT}/src"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"TASKS_SEED={SEED}\n{done.stdout}"
    head, line = done.stdout.splitlines()
    assert head.split() == ["kind", "task", "requests", "tokens", "result"]
    assert line.split()[:3] == ["calculation", "digits", "2"]
    assert line.endswith("  right")


def test_a_run_that_does_not_come_to_an_answer_is_named(folder: Folder) -> None:
    (problem,) = run(folder, made_in(folder, "digits"), "reakt").problems
    assert problem.startswith("the run ended as failed: no system 'reakt'; did you mean 'react'?")

    def killed(words: Sequence[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
        done = subprocess.run(["sh", "-c", "echo alas >&2; kill -9 $$"], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    made = folder.path / "made"
    outcome = run_task(made_in(folder, "digits"), "react", made, workspace=folder.workspace, command=killed)
    assert outcome.problems == ["the command ended with -9: alas"]
    assert (outcome.requests, outcome.tokens) == (0, 0)


# -- the model ---------------------------------------------------------------------------------------------------------


def schema(name: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT = {"type": "string"}
ORCHESTRATOR = [
    schema(
        "delegate_task",
        "Make an agent for one part of the work.",
        ["task_instruction", "context", "tools"],
        task_instruction=TEXT,
        context=TEXT,
        tools={"type": "array", "items": {"type": "string", "enum": ["python", "fetch"]}},
        model={"type": "string", "enum": ["model_1", "model_2"]},
    ),
    schema("complete", "End the work with the answer.", ["answer"], answer=TEXT),
]
SHELL = [
    schema("bash", "Run a command in the shell.", ["command"], command=TEXT),
    schema("done", "Finish.", ["answer"], answer=TEXT),
]


def next_call(body: dict[str, Any], *results: str) -> ToolCall:
    """What the model calls after its earlier calls gave these results."""
    messages = list(body["messages"])
    for number, result in enumerate(results):
        (made,) = solver.solve({**body, "messages": messages}).tool_calls
        function = {"name": made.name, "arguments": json.dumps(made.arguments)}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [{"id": f"call_{number}", "function": function}]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
        ]
    (last,) = solver.solve({**body, "messages": messages}).tool_calls
    return last


def asking(task: Task, tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": f"# The work\n{task.instruction}\n\n# Rules\nBe brief."}],
        "tools": tools,
    }


def test_the_model_knows_no_system_and_no_tool_by_its_name() -> None:
    text = solver.RULES + Path(solver.__file__).read_text(encoding="utf-8")
    text = re.sub(r"^from .*$", "", text, flags=re.MULTILINE)
    tools = "delegate_task deep_analyzer fetch terminal_run bash read_file send_message create_thread list_agents"
    tools += " wait_for_mention submit_answer"
    roles = ("worker", "planner", "coordinator", "document_agent", "coding_agent", "Subtask", "Its result")
    known = [*SYSTEMS, *tools.split(), *roles]
    assert [name for name in known if re.search(rf"\b{name}\b", text)] == []


def test_work_is_handed_on_as_the_schema_asks_for_it(tmp_path: Path) -> None:
    task = make("digits", SEED, tmp_path)
    body = asking(task, ORCHESTRATOR)
    first = next_call(body)
    assert first.name == "delegate_task"
    assert first.arguments == {"task_instruction": task.instruction, "context": "", "tools": ["python", "fetch"]}
    child = '{"status": "completed", "result": "4711", "summary": "computed", "findings": [], "steps": 2}'
    last = next_call(body, child)
    assert (last.name, last.arguments) == ("complete", {"answer": "4711"})
    graded = asking(task, [ORCHESTRATOR[0], schema("submit", "End the work.", ["reason"], reason=TEXT)])
    assert next_call(graded, child).arguments == {"reason": "4711"}


def test_a_child_that_found_nothing_is_followed_by_one_that_knows_it(tmp_path: Path) -> None:
    body = asking(make("digits", SEED, tmp_path), ORCHESTRATOR)
    failed = '{"status": "partial", "result": "", "findings": ["the power has 90 digits"]}'
    second = next_call(body, failed)
    assert second.name == "delegate_task"
    assert isinstance(second.arguments, dict)
    assert "the power has 90 digits" in str(second.arguments["context"])
    last = next_call(body, failed, failed)
    assert last.name == "complete"
    assert "not found" in str(last.arguments)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["total", "interest", "turn_round"])
def test_a_shell_alone_is_enough(tmp_path: Path, name: str) -> None:
    task = make(name, SEED, tmp_path)
    body = asking(task, SHELL)
    first = next_call(body)
    assert first.name == "bash"
    assert isinstance(first.arguments, dict)
    command = str(first.arguments["command"])
    ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    last = next_call(body, ran.stdout)
    assert isinstance(last.arguments, dict)
    assert last.name == "done"
    assert task.check(str(last.arguments["answer"]), tmp_path) == [], f"TASKS_SEED={SEED}"


def test_a_model_without_a_result_claims_none(tmp_path: Path) -> None:
    body = asking(make("digits", SEED, tmp_path), SHELL)
    last = next_call(body, "bash: python3: command not found")
    assert (last.name, last.arguments) == ("done", {"answer": "It was not found."})


def test_two_pages_are_compared_only_when_both_say_it(tmp_path: Path) -> None:
    task = make("compared", SEED, tmp_path)
    texts = {path: re.sub("<[^>]*>", "\n\n", text) for path, text in task.pages.items()}
    found = rules.answer(task.instruction, texts)
    assert found is not None
    assert task.check(found[0], tmp_path) == []
    page = next(path for path, _ in found[1])
    assert rules.answer(task.instruction, {**texts, page: ""}) is None
