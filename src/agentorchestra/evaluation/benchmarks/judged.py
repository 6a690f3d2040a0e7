"""SimpleQA, HLE and BrowseComp: a model judges whether an answer says what the true one says.

The judge is asked with the words of each benchmark, as inspect-evals has them. What differs is what becomes of a reply
that names no verdict, or two: inspect-evals takes it for "not attempted" (SimpleQA) or "no" (BrowseComp), as if the
answer had been judged; here the question is `judge_failed`, and counts neither as right nor as wrong.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.benchmarks.data import Download, Hub, need, question_set, rows
from agentorchestra.evaluation.questions import EvalAnswer, EvalQuestion, Judge, QuestionSet, Scored

# --- the sets -----------------------------------------------------------------------------------------


def load_simpleqa(data: Path | None) -> QuestionSet:
    """Load SimpleQA (arXiv:2411.04368): 4,326 short questions; `data` is a copy of simple_qa_test_set.csv."""
    module = need("inspect_evals.simpleqa.dataset")
    place = Download(module.__name__, ("SIMPLEQA_DATASET", "SIMPLEQA_CACHE"))

    def mapping(record: dict[str, Any]) -> EvalQuestion:
        sample = module.simpleqa_record_to_sample({**record, **_notes(record["metadata"])})
        return EvalQuestion(
            id=str(sample.id),
            task=sample.input,
            truth=sample.target,
            group=str(sample.metadata["topic"] or ""),
            metadata={"question": sample.input, "answer_type": sample.metadata["answer_type"]},
        )

    table = rows(data or place.fetch(), ("metadata", "problem", "answer"), name="simpleqa")
    return question_set("simpleqa", "simpleqa", table, mapping)


def load_browsecomp(data: Path | None) -> QuestionSet:
    """Load BrowseComp (arXiv:2504.12516): 1,266 questions; `data` is a copy of browse_comp_test_set.csv.

    Questions and answers are encrypted with the canary beside them, so that no crawler finds them; they are decrypted
    in memory only.
    """
    module = need("inspect_evals.browse_comp.browse_comp")
    place = Download(module.__name__, ("BROWSE_COMP_DATASET", "BROWSE_COMP_CACHE"))

    def mapping(record: dict[str, Any]) -> EvalQuestion:
        sample = module.record_to_sample(record)
        return EvalQuestion(
            id=str(sample.id),
            task=module.QUERY_TEMPLATE.format(Question=sample.input),
            truth=sample.target,
            group=record.get("problem_topic") or "",
            metadata={"question": sample.input},
        )

    table = rows(data or place.fetch(), ("problem", "answer", "canary"), name="browsecomp")
    return question_set("browsecomp", "browsecomp", table, mapping)


_COLUMNS = ("id", "question", "image", "answer", "answer_type", "author_name", "rationale", "raw_subject", "category")


def load_hle(data: Path | None) -> QuestionSet:
    """Load Humanity's Last Exam (arXiv:2501.14249): 2,500 questions, one of seven with a picture.

    A run needs files, so pictures are written into inspect-evals' cache (`INSPECT_EVALS_CACHE_DIR`), named by their
    content.
    """
    module = need("inspect_evals.hle.dataset")
    place = Hub(module.DATASET_PATH, module.HLE_DATASET_REVISION, ("data/test-*.parquet",), gated=True)
    pictures = need("inspect_evals.constants").INSPECT_EVALS_CACHE_PATH / "hle" / "pictures"

    def mapping(record: dict[str, Any]) -> EvalQuestion:
        sample = module.record_to_sample(record)
        form, message = sample.input
        return EvalQuestion(
            id=str(sample.metadata["uid"]),
            task=f"{message.text}\n\n{form.text}",
            truth=sample.target,
            files=tuple(_picture(part.image, pictures) for part in message.content if part.type == "image"),
            group=str(sample.metadata["category"]),
            metadata={"question": message.text, "rationale": sample.metadata["rationale"]},
        )

    return question_set("hle", "hle", rows(data or place.fetch(), _COLUMNS, name="hle"), mapping)


def _notes(metadata: str) -> dict[str, Any]:
    """Return SimpleQA's notes, which stand in its table as a Python literal."""
    from ast import literal_eval

    notes = literal_eval(metadata) if metadata.strip() else {}
    if not isinstance(notes, dict):
        raise ValueError(f"the column metadata holds {metadata[:40]!r}")
    return notes


def _picture(uri: str, folder: Path) -> Path:
    """Return the file with a picture that stands in the data as `data:image/png;base64,...`."""
    head, _, body = uri.partition(",")
    kind = re.fullmatch(r"data:image/([a-z]+)[^,]*;base64", head)
    try:
        content = base64.b64decode(body, validate=True)
    except binascii.Error:
        content = b""
    if not kind or not content:
        raise ValueError(f"the picture {uri[:40]!r} cannot be read")
    path = folder / f"{hashlib.sha256(content).hexdigest()[:32]}.{kind[1]}"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return path


# --- the judges ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    prompt: Callable[[str, str, str], str]  # makes what the judge is asked, of question, true answer and answer
    # reads its reply: `ok`, `wrong`, `missing` (it says that no answer was tried), None where it says none
    verdict: Callable[[str], str | None]
    needs_judge: bool = True

    async def score(self, question: EvalQuestion, answer: EvalAnswer, judge: Judge | None) -> Scored:
        """Return the score of an answer; EvaluationError without a judge or a true answer."""
        if judge is None:
            raise EvaluationError(f"the question {question.id!r} needs a judge; name a model for it")
        if not isinstance(question.truth, str):
            raise EvaluationError(
                f"the question {question.id!r} needs one true answer as text; it has {question.truth!r}"
            )
        task = str(question.metadata.get("question", question.task))
        reply = await judge(self.prompt(task, question.truth, answer.text))
        verdict = self.verdict(reply)
        if verdict is None:
            return Scored(None, "judge_failed", f"the judge's reply names no single verdict: {reply.strip()[:200]!r}")
        if verdict == "missing":
            return Scored(0.0, "missing", "the judge: not attempted")
        return Scored.of(verdict == "ok", "the judge's verdict")


_GRADES = {"A": "ok", "CORRECT": "ok", "B": "wrong", "INCORRECT": "wrong", "C": "missing", "NOT_ATTEMPTED": "missing"}
_WORDS = "|".join(_GRADES)
_GRADE = re.compile(rf"\W*(?:[Gg]rade\W+)?({_WORDS})(?:\W+({_WORDS}))?\W*")


def grade(reply: str) -> str | None:
    """Return the verdict of a judge that answers `A`, `B` or `C`, or in the words that these stand for.

    It is a line of its own: in `A better source says ...` the letter is a word.
    """
    lines = filter(None, map(_GRADE.fullmatch, reply.splitlines()))
    verdicts = {_GRADES[word] for line in lines for word in line.groups() if word}
    return verdicts.pop() if len(verdicts) == 1 else None


def yes_or_no(reply: str) -> str | None:
    """Return the verdict of a judge that writes `correct: yes` or `correct: no`, in lines or as JSON."""
    words = {word.lower() for word in re.findall(r"(?i)\bcorrect\b[\"'*\s]*:[\"'*\s]*(yes|no)\b", reply)}
    return {"yes": "ok", "no": "wrong"}[words.pop()] if len(words) == 1 else None


def _ask_simpleqa(question: str, truth: str, answer: str) -> str:
    words = need("inspect_evals.simpleqa.grader_templates")
    prompt: str = words.SIMPLEQA_GRADER_TEMPLATE.format(
        question=question, criterion=truth, answer=answer, instructions=words.SIMPLEQA_GRADING_INSTRUCTIONS
    )
    return prompt


def _ask_hle(question: str, truth: str, answer: str) -> str:
    words = need("inspect_evals.hle.prompts").PROMPTS["json_judge"].prompt
    return str(words.format(question=question, response=answer, correct_answer=truth))


def _ask_browsecomp(question: str, truth: str, answer: str) -> str:
    words = need("inspect_evals.browse_comp.prompts").GRADER_TEMPLATE
    return str(words.format(question=question, response=answer, correct_answer=truth))


SIMPLEQA = Judged(_ask_simpleqa, grade)
HLE = Judged(_ask_hle, yes_or_no)
BROWSECOMP = Judged(_ask_browsecomp, yes_or_no)
