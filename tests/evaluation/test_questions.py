"""Sets of questions, their refusals, samples, and scorers by rule."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.answers import CONTAINS, EXACT, LIST, NUMBER
from agentorchestra.evaluation.plan import Arm, draw, make_plan
from agentorchestra.evaluation.questions import EvalAnswer, EvalQuestion, QuestionSet, find_scorer, load_set
from tests.evaluation.support import sums, write_set

LINE = {"id": "a", "question": "Why?", "answer": "so"}


def test_a_line_becomes_a_question(tmp_path: Path) -> None:
    write_set(
        tmp_path, [{**LINE, "files": ["b.txt"], "level": 2, "notes": "from b.txt"}, {"question": "2?", "answer": 3}]
    )
    (tmp_path / "b.txt").write_text("so", encoding="utf-8")
    first, second = load_set("local", tmp_path).questions
    assert (first.id, first.task, first.truth, first.group) == ("a", "Why?", "so", "2")
    assert first.files == (tmp_path / "b.txt",)
    assert first.metadata == {"notes": "from b.txt"}
    assert (second.id, second.truth, second.files) == ("2", "3", ())


def test_the_version_is_that_of_the_content(tmp_path: Path) -> None:
    write_set(tmp_path, [{**LINE, "files": ["b.txt"]}])
    file = tmp_path / "b.txt"
    versions = []
    for text in ("one", "two", "one"):
        file.write_text(text, encoding="utf-8")
        versions.append(load_set("local", tmp_path / "questions.jsonl").version)
    assert versions[0] == versions[2] != versions[1]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "the set local holds no question"),
        ([{**LINE, "files": ["../secret.txt"]}], "'../secret.txt' lies outside"),
        ([{**LINE, "truth": "so"}], "line 1: unknown field 'truth'; a line has answer"),
        ([{"id": "a", "question": "Why?"}], "line 1: give `question` as text, `answer`"),
        ([{**LINE, "answer": {"a": 1}}], "line 1: the answer"),
        ([{**LINE, "answer": []}], "line 1: the answer"),
        ([{**LINE, "scorer": "vibes"}], "there is no scorer 'vibes'; the scorers: "),
    ],
)
def test_a_set_that_cannot_be_used_is_refused(tmp_path: Path, lines: list[dict[str, Any]], words: str) -> None:
    write_set(tmp_path, lines)
    with pytest.raises(EvaluationError) as caught:
        load_set("local", tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "name", "words"),
    [
        (LINE, "a~2", "the id 'a' stands in the set before; give each question its own id"),
        ({**LINE, "id": " "}, "question 2", "question 2 of the set has no id; give it one"),
        ({**LINE, "id": "b", "question": " "}, "b", "the question 'b' has no text; write down what is asked"),
        (
            {**LINE, "id": "b", "files": ["gone.pdf"]},
            "b",
            "gone.pdf of the question 'b' is not there, or cannot be read",
        ),
        ({**LINE, "id": "b", "files": ["folder"]}, "b", "folder of the question 'b' is not there, or cannot be read"),
    ],
)
def test_a_question_that_cannot_be_asked_is_a_fault_of_its_own(
    tmp_path: Path, line: dict[str, Any], name: str, words: str
) -> None:
    write_set(tmp_path, [LINE, line])
    (tmp_path / "folder").mkdir()
    found = load_set("local", tmp_path)
    assert [one.id for one in found.questions] == ["a", name]
    assert [*found.faults] == [name]
    assert words in found.faults[name]
    write_set(tmp_path, [{**LINE, "files": ["gone.pdf"]}])
    with pytest.raises(
        EvaluationError, match=r"none of the 1 chosen questions of local can be asked; the first: the f"
    ):
        make_plan(load_set("local", tmp_path), [Arm(name="one")])


def test_data_that_are_not_there_or_no_lines_of_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="the set local needs --data"):
        load_set("local")
    with pytest.raises(EvaluationError, match="is not there; name the file or folder with the data by --data"):
        load_set("local", tmp_path / "gone")
    with pytest.raises(EvaluationError, match="there is no set 'gaya'; the sets: "):
        load_set("gaya")
    (tmp_path / "questions.jsonl").write_text('{"id": 1}\n[2]\n', encoding="utf-8")
    with pytest.raises(EvaluationError, match=r"questions\.jsonl, line 2 is no JSON object"):
        load_set("local", tmp_path)
    (tmp_path / "questions.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(EvaluationError, match="line 1 is no JSON: "):
        load_set("local", tmp_path)
    (tmp_path / "questions.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EvaluationError, match="cannot be read as UTF-8 text"):
        load_set("local", tmp_path)


def test_a_sample_is_spread_over_the_groups_and_the_same_for_a_seed(tmp_path: Path) -> None:
    questions = load_set("local", sums(tmp_path, 40, levels=4)).questions
    group = {one.id: one.group for one in questions}
    chosen = draw(questions, 10, 7)
    assert chosen == draw(questions, 10, 7) != draw(questions, 10, 8)
    assert sorted(Counter(group[one] for one in chosen).values()) == [2, 2, 3, 3]
    assert chosen == [one for one in group if one in chosen]
    assert draw(questions, 40, 1) == [*group]
    with pytest.raises(EvaluationError, match="a sample of 41 cannot be drawn from 40 questions"):
        draw(questions, 41, 1)


def test_a_plan_without_sense_is_refused(tmp_path: Path) -> None:
    questions = load_set("local", sums(tmp_path, 2))
    one = Arm(name="one")
    with pytest.raises(EvaluationError, match="the arms are named one, one; give each one its own name"):
        make_plan(questions, [one, one])
    with pytest.raises(EvaluationError, match="the arms are named nothing"):
        make_plan(questions, [])
    with pytest.raises(EvaluationError, match="the name 'a/b' is not made of letters"):
        make_plan(questions, [one], name="a/b")
    with pytest.raises(EvaluationError, match="repeats is 0: "):
        make_plan(questions, [one], repeats=0)
    with pytest.raises(EvaluationError, match="a budget over all questions needs a limit for each run"):
        make_plan(questions, [one], budget_usd=1)
    with pytest.raises(EvaluationError, match="does not hold one question: its runs may cost up to 2; raise"):
        make_plan(questions, [one, Arm(name="two")], budget_usd=1.5, question_usd=1)
    judged = QuestionSet("mine", (EvalQuestion("a", "Why?", "so"),), "simpleqa")
    with pytest.raises(EvaluationError, match="the question 'a' is scored by a judge; name its model with --judge"):
        make_plan(judged, [one])
    assert (
        make_plan(questions, [one]).name == make_plan(questions, [one]).name != make_plan(questions, [one], seed=1).name
    )


@pytest.mark.parametrize(
    ("scorer", "truth", "right", "wrong"),
    [
        (EXACT, "Ada Lovelace", ["ada  lovelace.", " Ada Lovelace"], ["Lovelace", "Ada Lovelace, 1843"]),
        (EXACT, ("St. John's", "Saint John's"), ["st. john\u2019s", "saint john's"], ["John's"]),
        (NUMBER, "1234.5", ["1,234.5", "$1234.50", "1234.5 %"], ["1234", "1234.5 or 7", "12,34.5", "nan"]),
        (LIST, ("a", "2", "c"), ["A, 2.0, c", "a; 2; C"], ["a, c, 2", "a, 2", "a, 2, c, d"]),
        (LIST, "x, y", ["X,Y"], ["y, x", "x"]),
        (CONTAINS, "30 days", ["It is within 30 days.", "30 DAYS"], ["130 days", "30 daysies", "thirty"]),
        (CONTAINS, ("red", "blue"), ["blue and red"], ["red"]),
    ],
)
async def test_a_rule_takes_what_means_the_same(scorer: Any, truth: Any, right: list[str], wrong: list[str]) -> None:
    question = EvalQuestion("a", "Why?", truth)
    for text, status in [*((one, "ok") for one in right), *((one, "wrong") for one in wrong)]:
        said = await scorer.score(question, EvalAnswer(text), None)
        assert (said.status, said.score) == (status, 1.0 if status == "ok" else 0.0), text


async def test_a_rule_needs_the_true_answer() -> None:
    with pytest.raises(EvaluationError, match="the question 'a' has no public answer; export the answers instead"):
        await find_scorer("exact").score(EvalQuestion("a", "Why?"), EvalAnswer("so"), None)
