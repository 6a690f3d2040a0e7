"""An evaluation in one file: its plan, scores and report, and the bundle of each of its runs.

A ZIP file with members of these names only, stored as they are (runs are packed already):

    evaluation.json   kind, format, the version of this package
    checks.jsonl      what was found on the machines that runs left, where questions had some
    plan.json         the evaluation: ids, arms, limits, version of the set
    refused.json      why runs could not be made, where there were such
    report.md         as `agentorchestra eval report` prints it, where an answer has a score
    runs/RUN.zip      a run, of an attempt or of the judge (log/bundle/format.py): its log, versions, prompts, settings
    scores.jsonl      where it was scored

The data of the set are not in it: they may not be shared, or have true answers. History of the format (a line each,
newest last):

- 1: first version. `checks.jsonl` came later; bundles of questions that are answered in words are as before.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentorchestra.core.errors import BundleError, EvaluationError
from agentorchestra.evaluation.checks import CHECKS
from agentorchestra.evaluation.plan import PLAN, EvalPlan, folder_of, read, write
from agentorchestra.evaluation.questions import MachineCheck
from agentorchestra.evaluation.report import markdown
from agentorchestra.evaluation.results import VALID, outcome, report_tables
from agentorchestra.evaluation.runner import REFUSALS, found_runs
from agentorchestra.evaluation.scores import SCORES, Score, has_scores, judge_runs, kept_scores
from agentorchestra.log.bundle.secrets import SecretScanner, secret_variables
from agentorchestra.workspace import Workspace

KIND = "agentorchestra evaluation"
FORMAT = 1
HEADER, REPORT = "evaluation.json", "report.md"
_RUN = re.compile(r"runs/run_[0-9A-Z]{26}\.zip")
_TEXTS = (CHECKS, HEADER, PLAN, REFUSALS, REPORT, SCORES)
_MAX_TEXT_BYTES = 256 * 1024**2  # of a member that is read whole


async def write_bundle(workspace: Workspace[Any], plan: EvalPlan, path: Path) -> int:
    """Write an evaluation with all its runs into one file that only its owner can read; return how many runs.

    Args:
        path: the file; it must not be there yet.

    Raises:
        BundleError: the file is there or cannot be written, or something secret would be in it.
    """
    runs = {head.id for head in (await found_runs(workspace, plan)).values()}
    runs |= {*(await judge_runs(workspace, plan)).values()}
    watch, texts = SecretScanner(secret_variables(workspace.own.environ)), await _texts(workspace, plan)
    for name, text in texts.items():
        watch.check(text.encode(), f"its {name}")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BundleError(f"{path} is there already; name another file, or remove it") from None
    except OSError as exc:
        raise BundleError(f"{path} cannot be written: {exc.strerror}; name a file elsewhere") from None
    try:
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
            tempfile.TemporaryDirectory() as folder,
        ):
            for name, text in texts.items():
                archive.writestr(name, text)
            for run in sorted(runs):
                export = await workspace.log.export(run, Path(folder) / f"{run}.zip")
                archive.write(export.path, f"runs/{run}.zip")
                export.path.unlink()
    except BaseException:
        path.unlink()
        raise
    return len(runs)


async def _texts(workspace: Workspace[Any], plan: EvalPlan) -> dict[str, str]:
    header = {"kind": KIND, "format": FORMAT, "distribution": plan.distribution}
    texts = {HEADER: json.dumps(header) + "\n", PLAN: plan.model_dump_json(indent=1) + "\n"}
    folder = folder_of(workspace.folder, plan.name)
    for name in (REFUSALS, CHECKS):
        if (folder / name).is_file():
            texts[name] = (folder / name).read_text(encoding="utf-8")
    if has_scores(workspace.folder, plan):
        scores = kept_scores(workspace.folder, plan)
        texts[SCORES] = (folder / SCORES).read_text(encoding="utf-8")
        if any(outcome(score) in VALID for score in scores):
            texts[REPORT] = markdown(plan, await report_tables(workspace, plan, scores))
    return texts


async def read_bundle(workspace: Workspace[Any], path: Path, data: Path | None = None) -> tuple[EvalPlan, int]:
    """Take the evaluation of a bundle into a workspace, with its runs; return it, and how many runs it has.

    Each run is checked as `Workspace.import_file` does; the plan comes last. What an import left behind that stopped in
    between is not in the way: the same call goes on.

    Args:
        data: where the data of the set are here; None where they are not.

    Raises:
        BundleError: it is no bundle of an evaluation, or of a later version, or a run of it does not fit.
        EvaluationError: the workspace has another evaluation of this name, or the data are not those.
    """
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            texts, runs = _contents(path, archive)
            plan = _plan(path, texts).model_copy(update={"data": "" if data is None else str(data.absolute())})
            if data is not None:
                plan.load()
            _check_other(workspace.folder, plan)
            for name in runs:
                bundle = Path(archive.extract(name, folder))
                await workspace.log.import_file(bundle)
                bundle.unlink()
    except (OSError, zipfile.BadZipFile) as exc:
        raise BundleError(f"{path} cannot be read: {exc}; give the file that `eval export --bundle` wrote") from None
    here = folder_of(workspace.folder, plan.name)
    exists = (here / PLAN).exists()
    for name in (SCORES, REFUSALS, CHECKS):
        if name in texts and not (exists and (here / name).exists()):
            write(workspace.folder, plan.name, name, texts[name])
    if not exists or data is not None:
        write(workspace.folder, plan.name, PLAN, plan.model_dump_json(indent=1) + "\n")
    return plan, len(runs)


def _contents(path: Path, archive: zipfile.ZipFile) -> tuple[dict[str, str], list[str]]:
    members = archive.infolist()
    names = [member.filename for member in members]
    wrong = [name for name in names if name not in _TEXTS and not _RUN.fullmatch(name)]
    if wrong or len({*names}) < len(names) or HEADER not in names or PLAN not in names:
        problem = f"{wrong[0][:200]!r} is in it" if wrong else "a part is missing or twice in it"
        raise BundleError(
            f"{path} is not a bundle of an evaluation: {problem}; `agentorchestra import` takes those of runs"
        )
    sizes = {member.filename: member.file_size for member in members}
    is_stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if not is_stored or sum(sizes.values()) > path.stat().st_size:
        raise BundleError(f"{path} was packed by another program: its members are not stored; take the file as it was")
    if large := [name for name in names if name in _TEXTS and sizes[name] > _MAX_TEXT_BYTES]:
        raise BundleError(
            f"{path}: {large[0]} is larger than {_MAX_TEXT_BYTES} bytes; it is not one that was written here"
        )
    try:
        texts = {name: archive.read(name).decode() for name in names if name in _TEXTS}
        header = json.loads(texts[HEADER])
        kind, version = header["kind"], header["format"]
    except (ValueError, TypeError, KeyError):
        raise BundleError(f"{path}: {HEADER} or another text of it is damaged; take the file as it was") from None
    if kind != KIND or version != FORMAT:
        raise BundleError(
            f"{path} is {kind!r} of format {version!r}, and this version reads format {FORMAT} of {KIND!r}; use the "
            f"version that wrote it ({header.get('distribution')})"
        )
    return texts, sorted(name for name in names if _RUN.fullmatch(name))


def _plan(path: Path, texts: dict[str, str]) -> EvalPlan:
    try:
        plan = EvalPlan.model_validate_json(texts[PLAN])
        for line in texts.get(SCORES, "").splitlines():
            Score.model_validate_json(line)
        for line in texts.get(CHECKS, "").splitlines():
            MachineCheck.model_validate_json(line)
        json.loads(texts.get(REFUSALS, "{}"))
    except (ValidationError, ValueError) as exc:
        raise BundleError(f"{path}: the plan or the scores do not fit: {str(exc).splitlines()[0]}") from None
    if not re.fullmatch(r"\w[\w.-]*", plan.name):
        raise BundleError(f"{path}: the name {plan.name[:200]!r} is none of an evaluation; nothing was imported")
    return plan


def _check_other(folder: Path, plan: EvalPlan) -> None:
    """Raise EvaluationError if another evaluation has the name of this one."""
    if not (folder_of(folder, plan.name) / PLAN).exists():
        return
    here = read(folder, plan.name)
    if here.model_copy(update={"data": plan.data}) != plan:
        raise EvaluationError(
            f"{folder} holds another evaluation {plan.name}; import this one into another --workspace"
        )
