"""Terminal-Bench 2 (arXiv:2601.11868): tasks in folders of Harbor's format, which their own tests score.

The data are the folders of the tasks. Most tasks lie on an image, which is not fetched here: it is saved beside them,

    DATA/TASK/task.toml, instruction.md, environment/, tests/
    DATA/images/TASK.tar      what `docker save` writes

A task whose image is not there, or that needs what a run here does not have, is not asked: it is `missing`, with the
reason. `solution/` is not read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.errors import EvaluationError, TaskFolderError
from agentorchestra.evaluation.questions import EvalAnswer, EvalQuestion, Judge, QuestionSet, Scored, TaskMachine
from agentorchestra.workspace.task_folder import read_task_folder

NAME = "terminal-bench-2"
IMAGES = "images"
_FILES = ("task.toml", "task.yaml", "instruction.md")


def load_tasks(data: Path | None) -> QuestionSet:
    """Load the tasks of a folder.

    Args:
        data: the folder of the tasks, or one with them in `tasks/`, such as a clone of their repository.

    Raises:
        EvaluationError: there is no such folder.
    """
    if data is None or not data.is_dir():
        problem = "needs --data" if data is None else f"is not at {data}; name it with --data"
        raise EvaluationError(
            f"the set {NAME} {problem}: the folder of its tasks (`git clone "
            f"https://github.com/laude-institute/terminal-bench-2`), with their images in {IMAGES}/"
        )
    top = data / "tasks" if (data / "tasks").is_dir() else data
    folders = sorted(path for path in top.iterdir() if any((path / name).is_file() for name in _FILES))
    questions = tuple(task_question(folder, data / IMAGES / f"{folder.name}.tar") for folder in folders)
    return QuestionSet(NAME, questions, "tests")


def task_question(
    folder: Path, image: Path, *, group: str = "", metadata: Mapping[str, JsonValue] | None = None, patch: str = ""
) -> EvalQuestion:
    """Return the question that a task in a folder is; one that cannot be worked on here has a fault.

    Args:
        folder: of the task; its name is the id.
        image: where its image is looked for.
        group, metadata: of the question; without a group the difficulty that task.toml names.
        patch: see `TaskMachine`.
    """
    image_file = str(image.absolute()) if image.is_file() else ""
    try:
        task, fault = read_task_folder(folder, image=image_file).instruction, ""
    except TaskFolderError as exc:
        task, fault = "", _lacks_image(folder, image) if not image_file else ""
        fault = fault or str(exc)
    return EvalQuestion(
        id=folder.name,
        task=task or _instruction(folder),
        group=group or str(_config(folder).get("metadata", {}).get("difficulty", "")),
        metadata=metadata or {},
        machine=TaskMachine(folder.absolute(), image_file, patch),
        fault=fault,
    )


def _lacks_image(folder: Path, image: Path) -> str:
    """Return how to make the image of a task that could be worked on with one, "" where that would not do."""
    try:
        read_task_folder(folder, image=str(image))
    except TaskFolderError:
        return ""
    name = _config(folder).get("environment", {}).get("docker_image")
    make = f"docker pull {name}" if name else f"docker build -t {folder.name} {folder / 'environment'}"
    return (
        f"the task {folder.name!r} lies on an image, and {image} is not there; where a Docker engine is, `{make} && "
        f"docker save -o {image} {name or folder.name}` makes it"
    )


def _config(folder: Path) -> dict[str, Any]:
    """Return what task.toml says; nothing where it cannot be read, which the fault says."""
    try:
        return tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _instruction(folder: Path) -> str:
    try:
        return (folder / "instruction.md").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


class Tests:
    """What the tests of a task say: their reward, from 0 to 1."""

    needs_judge = False

    async def score(self, question: EvalQuestion, answer: EvalAnswer, judge: Judge | None) -> Scored:
        if answer.check is None:
            raise EvaluationError(f"the question {question.id!r} has no machine; its scorer `tests` needs one")
        if answer.check.reward is None:
            return Scored(None, "judge_failed", answer.check.why)
        reward = min(1.0, max(0.0, answer.check.reward))
        return Scored(reward, "ok" if reward else "wrong", answer.check.why)


TESTS = Tests()
