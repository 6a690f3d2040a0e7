"""GAIA (arXiv:2311.12983): questions of three levels, many with a file, and an answer that one rule compares.

The rule is that of the official leaderboard, as inspect-evals has it; `says_the_same` is written anew, so that scoring
needs no extra, and agrees with it in everything, its quirks included:

- a true answer that Python's `float` takes is a number: `1_000`, `1e3` and `infinity` are. An answer that is no number
  counts as infinity, so that any words are right where the truth is `infinity`, and nothing is where it is `nan`;
- `$`, `%` and `,` are dropped anywhere in an answer to a number: `1,2` is 12. A unit is not: `17 hours` is not 17;
- a true answer with a comma or semicolon is a list, `1,000` too: it has the entries 1 and 0, and `1000` is not right;
- the order of a list counts; white space never does, so that `sea gull` is `seagull`; ASCII punctuation does in lists
  only; a true answer of nothing else is right for any answer of nothing else.

Two things are different. The official one raises for an answer that is None, here there is none to score (`missing`);
and it writes a warning to the log for each answer that is no number, here nothing is written.
"""

from __future__ import annotations

import re
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.answers import RuleScorer
from agentorchestra.evaluation.benchmarks.data import Hub, need, question_set, rows
from agentorchestra.evaluation.questions import EvalQuestion, QuestionSet

REVISION = "682dd723ee1e1697e00360edccf2366dc8418dd9"
_COLUMNS = ("task_id", "Question", "Level", "Final answer", "file_name", "Annotator Metadata")
_FILE_LINE = "{file}\n\n"
_METADATA = ("metadata.parquet", "metadata.jsonl")
_MEDIA = {
    **dict.fromkeys((".mp3", ".wav", ".m4a"), "audio"),
    **dict.fromkeys((".png", ".jpg", ".jpeg"), "image"),
    **dict.fromkeys((".xlsx", ".xls", ".csv"), "tables"),
}
_NO_ANSWER = "?"  # stands for the true answers of the test split, which are not public


def load_validation(data: Path | None) -> QuestionSet:
    """Load GAIA's validation split: 165 questions with answers."""
    return _load("validation", data)


def load_test(data: Path | None) -> QuestionSet:
    """Load GAIA's test split: 301 questions, answers only at the leaderboard."""
    return _load("test", data)


def load_media(data: Path | None) -> QuestionSet:
    """Load the 27 questions of the validation split with a recording, a picture or a table (004, table 2)."""
    every = load_validation(data)
    with_files = (question for question in every.questions if question.files)
    kinds = ((question, _MEDIA.get(question.files[0].suffix.lower(), "")) for question in with_files)
    questions = tuple(replace(question, group=kind) for question, kind in kinds if kind)
    return QuestionSet("gaia-media", questions, every.scorer)


def _load(split: str, data: Path | None) -> QuestionSet:
    """Load a split.

    Args:
        split: `validation` or `test`.
        data: a copy of the hub's dataset, or the folder with a split's metadata and attachments; None for the hub.

    Raises:
        EvaluationError: no access, no metadata, metadata of another version, an attachment that is not there.
    """
    name = f"gaia-{split}"
    top = data or Hub("gaia-benchmark/GAIA", REVISION, (f"2023/{split}/*",), gated=True).fetch()
    subfolder = top / "2023" / split
    folder = subfolder if subfolder.is_dir() else top
    file = next((folder / candidate for candidate in _METADATA if (folder / candidate).is_file()), None)
    if file is None:
        raise EvaluationError(
            f"{folder} has neither {' nor '.join(_METADATA)}; name a copy of the dataset gaia-benchmark/GAIA, or its "
            f"folder 2023/{split}, with --data"
        )
    module = need("inspect_evals.gaia.dataset")
    # The line about the file names a folder of inspect-evals' container; here the files stand beside the task anyway.
    form = module.DEFAULT_INPUT_PROMPT.replace(_FILE_LINE, "")

    def mapping(record: dict[str, Any]) -> EvalQuestion:
        # Not by its own mapping, which takes whatever file has the id in its name, and misses none that is not there.
        attachment, answer = record["file_name"], record["Final answer"]
        return EvalQuestion(
            id=record["task_id"],
            task=form.format(question=record["Question"]),
            truth=None if answer in (None, "", _NO_ANSWER) else str(answer),
            files=(folder / Path(attachment).name,) if attachment else (),
            group=f"level {int(record['Level'])}",
            metadata={"annotator": record["Annotator Metadata"]},
        )

    return question_set(name, "gaia", rows(file, _COLUMNS, name=name), mapping)


def says_the_same(answer: str, truth: str) -> bool:
    """Return whether an answer is right by GAIA's rule (arXiv:2311.12983, sec. 3.2; its quirks stand above)."""
    if _is_number(truth):
        return _number(answer) == float(truth)
    if re.search("[,;]", truth):
        actual, expected = re.split("[,;]", answer), re.split("[,;]", truth)
        return len(actual) == len(expected) and all(map(_same_entry, actual, expected))
    return _squeeze(answer).translate(_NO_PUNCTUATION) == _squeeze(truth).translate(_NO_PUNCTUATION)


_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _same_entry(answer: str, truth: str) -> bool:
    return _number(answer) == float(truth) if _is_number(truth) else _squeeze(answer) == _squeeze(truth)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> float:
    bare = re.sub("[$%,]", "", text)
    return float(bare) if _is_number(bare) else float("inf")


def _squeeze(text: str) -> str:
    return re.sub(r"\s", "", text).lower()


GAIA = RuleScorer(lambda answer, truth: says_the_same(answer, truth[0]), "by GAIA's rule")
