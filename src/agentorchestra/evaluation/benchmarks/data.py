"""Where the data of a benchmark come from: its own place, or `--data`; and how they are read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import EvaluationError, MissingExtraError
from agentorchestra.evaluation.questions import EvalQuestion, QuestionSet, read_lines


def need(module: str) -> Any:
    """Import a module of the extra `eval`; it takes seconds, so that only loading and scoring do it."""
    try:
        return import_module(module)
    except ImportError as exc:
        raise MissingExtraError(
            f"benchmarks need the extra `eval` ({exc}); install it: pip install 'agentorchestra[eval]'"
        ) from None


@dataclass(frozen=True)
class Hub:
    repo: str  # `OWNER/NAME`
    revision: str  # the commit whose format is read here
    patterns: tuple[str, ...]  # the files that are needed
    gated: bool = False  # whether its owners ask for something before they give it

    def fetch(self) -> Path:
        """Return the folder with the dataset's files, out of the hub's cache or loaded down.

        Raises:
            EvaluationError: the hub gives nothing; the message says how to get access or around it.
        """
        hub = need("huggingface_hub")
        errors = need("huggingface_hub.errors")
        options = {"revision": self.revision, "allow_patterns": list(self.patterns)}
        try:
            return Path(hub.snapshot_download(self.repo, repo_type="dataset", **options))
        except errors.RepositoryNotFoundError as exc:  # GatedRepoError is one of them; so is a request without a token
            error, is_refusal = exc, True
        except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError, ValueError) as exc:
            error, is_refusal = exc, False
        page = f"https://huggingface.co/datasets/{self.repo}"
        message = str(error).strip().partition("\n")[0] or type(error).__name__
        if is_refusal and self.gated:
            raise EvaluationError(
                f"the hub does not give {self.repo} to you ({message}); log in at {page}, accept its conditions, and "
                "set HF_TOKEN to a token of yours that may read; or name a copy with --data"
            )
        raise EvaluationError(
            f"{self.repo} cannot be loaded from the hub ({message}); try it again with a network, or load it down from "
            f"{page} (revision {self.revision}) and name its folder with --data"
        )


@dataclass(frozen=True)
class Download:
    """A file at an address, of which inspect-evals has the checksum."""

    module: str  # of inspect-evals
    prefix: tuple[str, str]  # how its names `..._URL`, `..._SHA256` and `..._PATH` begin

    def fetch(self) -> Path:
        """Return the file, out of inspect-evals' cache or loaded down; EvaluationError if it cannot be had."""
        module = need(self.module)
        dataset, cache = self.prefix
        url, path = getattr(module, f"{dataset}_URL"), getattr(module, f"{cache}_PATH")
        try:
            return Path(need("inspect_ai.util").download(url, getattr(module, f"{dataset}_SHA256"), path))
        except (need("httpx").HTTPError, OSError, ValueError) as exc:
            raise EvaluationError(
                f"{url} cannot be loaded down ({exc}); try it again with a network, or name the file with --data"
            ) from None


def rows(path: Path, columns: Sequence[str], *, name: str) -> list[dict[str, Any]]:
    """Read a table.

    Args:
        path: a .csv, .jsonl or .parquet file, or a folder with one of them somewhere below.
        columns: that each row must have; of a Parquet file only these are read.
        name: of the set, for messages.

    Returns:
        Its rows, with at least these columns.

    Raises:
        EvaluationError: nothing or too much is there, it cannot be read, or its columns are those of another version.
    """
    file = _table(path, name)
    if file.suffix == ".jsonl":
        table = [line for _, line in read_lines(file)]
        header: Iterable[str] = set.intersection(*(set(row) for row in table)) if table else columns
    elif file.suffix == ".csv":
        try:
            with file.open(encoding="utf-8", newline="") as stream:
                reader = csv.DictReader(stream)
                table, header = list(reader), reader.fieldnames or ()
        except (OSError, UnicodeDecodeError, csv.Error) as exc:
            raise _unreadable(file, exc) from None
    else:
        parquet = need("pyarrow.parquet")
        try:
            header = parquet.read_schema(file).names
            subset = [column for column in columns if column in header]
            table = parquet.read_table(file, columns=subset).to_pylist()
        except (OSError, ValueError) as exc:  # pyarrow's own errors are kinds of both
            raise _unreadable(file, exc) from None
    if lacking := [column for column in columns if column not in header]:
        raise EvaluationError(
            f"{file} has no column {lacking[0]!r}, so it is another set than {name}, or another version of it than the "
            f"one that is read here; it has {', '.join(sorted(map(str, header))) or 'no column'}; name the right one "
            "with --data"
        )
    return table


def question_set(
    name: str, scorer: str, table: Sequence[dict[str, Any]], mapping: Callable[[dict[str, Any]], EvalQuestion]
) -> QuestionSet:
    """Return the set of a table's rows, unreadable ones as questions that cannot be asked; EvaluationError for none."""
    questions, failures = [], 0
    for number, row in enumerate(table, start=1):
        try:
            questions.append(mapping(row))
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            fault = (
                f"row {number} of {name} cannot be read ({type(exc).__name__}: {exc}); it is damaged, or of another "
                "version; load the set down again, or name the right one with --data"
            )
            questions.append(EvalQuestion(f"row {number}", "", fault=fault))
            failures += 1
    if questions and failures == len(questions):
        raise EvaluationError(questions[0].fault)
    return QuestionSet(name, tuple(questions), scorer)


_TABLES = (".csv", ".jsonl", ".parquet")


def _table(path: Path, name: str) -> Path:
    if path.is_file():
        if path.suffix not in _TABLES:
            raise EvaluationError(f"{path} is no {', '.join(_TABLES)}; name the file of {name} with --data")
        return path
    if not path.is_dir():
        raise EvaluationError(f"there is no {path}; name the file or folder with the data of {name} with --data")
    tables = sorted(path for path in path.rglob("*") if path.suffix in _TABLES and path.is_file())
    if len(tables) != 1:
        contents = f"{len(tables)} tables ({', '.join(table.name for table in tables[:5])})" if tables else "no table"
        raise EvaluationError(f"{path} holds {contents} ({', '.join(_TABLES)}); name the one of {name} with --data")
    return tables[0]


def _unreadable(file: Path, exc: Exception) -> EvaluationError:
    message = str(exc).partition("\n")[0]
    return EvaluationError(f"{file} cannot be read ({message}); load it down again, or name another one with --data")
