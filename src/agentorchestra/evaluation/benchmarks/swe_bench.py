"""SWE-bench Verified (arXiv:2310.06770): 500 issues of twelve repositories, scored by SWE-bench's own harness.

The data are the table of the hub, and an image of each task, saved beside it:

    DATA/test-00000-of-00001.parquet (or .jsonl)
    DATA/images/INSTANCE_ID.tar      what `docker save` writes of `image_name(INSTANCE_ID)`

An issue is worked on as a task in a folder, like those of Terminal-Bench, on the image that SWE-bench made of it. What
the run changed in /testbed is its patch. Whether the patch is right the harness decides, which needs a Docker engine:
`predictions` writes its file, `verdicts` reads its report.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.benchmarks.data import need, question_set, rows
from agentorchestra.evaluation.benchmarks.terminal_bench import IMAGES, task_question
from agentorchestra.evaluation.questions import EvalAnswer, EvalQuestion, Judge, QuestionSet, Scored
from agentorchestra.tea.prompts.catalog import load_prompt

NAME = "swe-bench-verified"
DATASET = "princeton-nlp/SWE-bench_Verified"
REVISION = "c104f840cc67f8b6eec6f759ebc8b2693d585d4a"
PATCH = ".agentorchestra.patch"  # the file in /testbed that has the patch, when a run has ended

_COLUMNS = (
    *("instance_id", "repo", "base_commit", "problem_statement", "version", "difficulty"),
    *("test_patch", "FAIL_TO_PASS", "PASS_TO_PASS"),
)
_CONFIG = """version = "1.0"
[environment]
docker_image = {image}
[verifier]
timeout_sec = 300.0
"""
# The images begin with a commit of their own over the base: what is changed is what was changed since that one.
_TAKE_PATCH = """rm -rf {file}
git="git -c safe.directory=* -c core.fsmonitor=false"
$git add --all
start=$($git rev-list --reverse --grep='^SWE-bench$' {base}..HEAD | head -n 1)
$git diff --cached --binary --no-ext-diff --no-textconv "${{start:-{base}}}" > /logs/verifier/patch || exit 1
echo 0 > /logs/verifier/reward.txt
cat /logs/verifier/patch > {file}
"""


def image_name(instance: str) -> str:
    return f"swebench/sweb.eval.x86_64.{instance.replace('__', '_1776_').lower()}:latest"


def load_verified(data: Path | None) -> QuestionSet:
    """Load SWE-bench Verified.

    The tasks are written as folders into inspect-evals' cache (`INSPECT_EVALS_CACHE_DIR`). The tests of the issues are
    in no run and no folder: the harness has them.

    Args:
        data: a folder with a copy of the hub's table, and the images in `images/`.

    Raises:
        EvaluationError: no folder, no table, or a table of another version.
    """
    if data is None:
        raise EvaluationError(
            f"the set {NAME} needs --data: a folder with its table (`hf download {DATASET} --repo-type dataset "
            f"--revision {REVISION} --local-dir FOLDER`), and the images of its tasks in {IMAGES}/"
        )
    cache = need("inspect_evals.constants").INSPECT_EVALS_CACHE_PATH / "swe_bench" / "tasks"
    images = (data if data.is_dir() else data.parent) / IMAGES
    form = load_prompt(files(__package__).joinpath("swe_bench.md"))

    def mapping(record: dict[str, Any]) -> EvalQuestion:
        name, base = record["instance_id"], record["base_commit"]
        if not base.isalnum() or Path(name).name != name:
            raise ValueError(f"{name!r} at {base!r} is not of a repository")
        task = form.render(repo=record["repo"], issue=record["problem_statement"])
        folder = _write_task(cache, name, base, task)
        return task_question(
            folder,
            images / f"{name}.tar",
            group=record["difficulty"],
            patch=PATCH,
            metadata={column: record[column] for column in _COLUMNS if column != "problem_statement"},
        )

    return question_set(NAME, "swe-bench", rows(data, _COLUMNS, name=NAME), mapping)


def _write_task(cache: Path, name: str, base: str, task: str) -> Path:
    """Return the folder of a task, written where it is not there yet."""
    texts = {
        "instruction.md": f"{task}\n",
        "task.toml": _CONFIG.format(image=json.dumps(image_name(name))),
        "environment/Dockerfile": f"FROM {image_name(name)}\nWORKDIR /testbed\n",
        "tests/test.sh": _TAKE_PATCH.format(file=PATCH, base=base),
    }
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]
    folder: Path = cache / digest / name
    for path, text in texts.items():
        if not (folder / path).is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    return folder


class Harness:
    """What SWE-bench's harness said of a patch."""

    needs_judge = False

    async def score(self, question: EvalQuestion, answer: EvalAnswer, judge: Judge | None) -> Scored:
        if answer.check is None:
            raise EvaluationError(f"the question {question.id!r} has no machine; its scorer `swe-bench` needs one")
        if answer.check.reward is not None:
            return Scored.of(answer.check.reward >= 1, answer.check.why)
        if not answer.check.patch:
            return Scored(0.0, "missing", "nothing was changed in the repository")
        return Scored(None, "judge_failed", answer.check.why)


HARNESS = Harness()


def predictions(model: str, patches: Mapping[str, str]) -> Iterable[str]:
    """Return the lines that the harness takes.

    Args:
        model: the name under which they stand.
        patches: by task; "" for none.
    """
    for name, patch in patches.items():
        yield json.dumps({"instance_id": name, "model_name_or_path": model, "model_patch": patch})


def command(path: Path, run: str) -> str:
    """Return the command with which the harness scores a file of predictions; it needs a Docker engine."""
    words = ["python", "-m", "swebench.harness.run_evaluation", "--dataset_name", DATASET, "--split", "test"]
    return shlex.join([*words, "--predictions_path", str(path), "--run_id", run, "--max_workers", "4"])


def verdicts(path: Path) -> dict[str, tuple[float | None, str]]:
    """Return reward (or None) and sentence by task, of a report of the harness; EvaluationError for no report."""
    kinds = {
        "resolved_ids": (1.0, "the harness: resolved"),
        "unresolved_ids": (0.0, "the harness: not resolved"),
        "error_ids": (None, "the harness could not run the tests (error_ids); its log says why"),
    }
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): verdict for kind, verdict in kinds.items() for name in report[kind]}
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise EvaluationError(
            f"{path} is no report of SWE-bench's harness ({type(exc).__name__}: {exc}); name the file that it wrote, "
            "MODEL.RUN_ID.json"
        ) from None
