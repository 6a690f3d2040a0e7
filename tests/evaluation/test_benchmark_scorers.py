"""Answers are scored as the benchmarks do; where a judge says nothing usable, nobody says that it was an answer."""

from __future__ import annotations

import logging
import random
from types import SimpleNamespace
from typing import Any

import pytest

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.benchmarks import judged
from agentorchestra.evaluation.benchmarks.gaia import says_the_same
from agentorchestra.evaluation.benchmarks.gpqa import letter
from agentorchestra.evaluation.questions import EvalAnswer, EvalQuestion, Scored, find_scorer


async def score(
    scorer: str, truth: str | None, answer: str, *replies: str, **metadata: Any
) -> tuple[Scored, list[str]]:
    """Return what a scorer says, and what it asked the judge."""
    asked: list[str] = []
    left = list(replies)

    async def judge(prompt: str) -> str:
        asked.append(prompt)
        return left.pop(0)

    question = EvalQuestion("q1", "What is the capital of Varn?", truth=truth, metadata=metadata)
    found = await find_scorer(scorer).score(question, EvalAnswer(answer), judge if replies else None)
    assert not left
    return found, asked


# --- GAIA ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "truth", "right"),
    [
        ("17", "17", True),
        ("17.0", "17", True),
        ("$1,700%", "1700", True),
        ("17 hours", "17", False),
        ("seventeen", "17", False),
        ("Sea  Gull!", "seagull", True),
        ("the seagull", "seagull", False),
        ("Ammel; zo", "Ammel, Zo", True),
        ("Zo, Ammel", "Ammel, Zo", False),
        ("Ammel, Zo, ", "Ammel, Zo", False),
        ("3, b.", "3.0,b.", True),
        ("3, b", "3.0,b.", False),
        # Quirks of the official rule, named at the head of the module.
        ("1,2", "12", True),
        ("1000", "1,000", False),
        ("anything", "infinity", True),
        ("nan", "nan", False),
        ("...", "!?", True),
    ],
)
def test_gaia_by_its_rule(answer: str, truth: str, right: bool) -> None:
    assert says_the_same(answer, truth) is right


_PARTS = (
    *("17", "3.5", "1,000", "1e3", "1_000", "-4", "$5", "50%", "infinity", "nan", "0", "٣", " 12 "),
    *("Sea Gull", "seagull", "the gate", "Öst", "St. Varn", "don't", "!?", "", "a\tb", "X-1", "½"),
)


def _pairs(count: int) -> list[tuple[str, str]]:
    """Return pairs of answer and truth: half of them one changed into the other, so that many are right."""
    chance = random.Random(2311)

    def text() -> str:
        parts = chance.choices(_PARTS, k=chance.choice((1, 1, 2, 3)))
        return chance.choice((",", ", ", ";", "; ", " ")).join(parts)

    def changed(one: str) -> str:
        changes = (
            lambda: one,
            lambda: one.upper(),
            lambda: f" {one}.",
            lambda: one.replace(" ", ""),
            lambda: one.replace(",", ";"),
            lambda: f"${one}",
            lambda: f"{one}%",
            lambda: f"{one} km",
            lambda: f"{one}.0",
            lambda: f"{one},",
            lambda: one.replace(",", ""),
            lambda: ",".join(reversed(one.split(","))),
        )
        return chance.choice(changes)()

    truths = [text() for _ in range(count)]
    return [(changed(one) if chance.random() < 0.5 else text(), one) for one in truths]


@pytest.mark.long
def test_gaia_agrees_with_the_official_rule(caplog: pytest.LogCaptureFixture) -> None:
    from inspect_evals.gaia.scorer import question_scorer

    caplog.set_level(logging.ERROR, "inspect_evals.gaia.scorer")  # it warns of each answer that is no number
    pairs = _pairs(4_000)
    official = [question_scorer(answer, truth)[0] for answer, truth in pairs]
    assert [pair for pair, right in zip(pairs, official, strict=True) if says_the_same(*pair) is not right] == []
    assert len(set(pairs)) > 2_500 and 400 < sum(official) < 2_000
    with pytest.raises(AttributeError):  # why a missing answer never gets so far here
        question_scorer(None, "17")  # type: ignore[arg-type]


async def test_the_test_split_of_gaia_cannot_be_scored_here() -> None:
    with pytest.raises(EvaluationError, match="'q1' has no public answer; export the answers instead"):
        await score("gaia", None, "17")


# --- GPQA and AIME ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("B", "B"),
        ("(B)", "B"),
        ("B) half of 3 s", "B"),
        ("**B**", "B"),
        ("It falls.\nANSWER: C", "C"),
        ("Answer: **D**", "D"),
        (r"ANSWER: $\boxed{A}$", "A"),
        (r"ANSWER: \text{A}", "A"),
        ("ANSWER: A\nNo: it is heavier.\nANSWER: B", "B"),
        ("A clock falls for three seconds", ""),
        ("ANSWER: Because of this", ""),
        ("E", ""),
        ("b", ""),
    ],
)
async def test_the_letter_that_an_answer_names(answer: str, named: str) -> None:
    assert letter(answer) == named
    assert (await score("gpqa", named or "A", answer))[0].status == ("ok" if named else "wrong")


@pytest.mark.long
async def test_gpqa_agrees_with_inspect_evals_on_answers_in_the_form_that_is_asked_for() -> None:
    from inspect_ai.model import ChatMessageUser, ModelName, ModelOutput
    from inspect_ai.solver import TaskState
    from inspect_ai.solver._multiple_choice import parse_answers

    forms = ("ANSWER: {}", "Because.\n\nANSWER: {}", "answer: {}", "ANSWER: {}.", "ANSWER:{}  ", "no answer")
    for answer in (form.format(one) for form in forms for one in "ABCD"):
        state = TaskState(
            model=ModelName("none/none"),
            sample_id="q1",
            epoch=1,
            input="",
            messages=[ChatMessageUser(content="")],
            choices=["1", "2", "3", "4"],
            output=ModelOutput.from_content("none", answer),
        )
        assert letter(answer) == "".join(parse_answers(state, multiple_correct=False)), answer


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("41", True),
        ("041", True),
        ("So a = 1.\nANSWER: 41", True),
        ("$$\n\\boxed{41}\n$$", True),
        ("ANSWER: 41.", True),
        ("ANSWER: 42", False),
        ("41\nThat was it, 7 steps", False),  # the last number of the last line counts
        ("forty-one", False),
    ],
)
async def test_aime(answer: str, right: bool) -> None:
    assert (await score("aime", "41", answer))[0].status == ("ok" if right else "wrong")


# --- judges -------------------------------------------------------------------------------------------

_YES_NO = {
    "reasoning: they match\n\ncorrect: yes\n\nconfidence: 90": "ok",
    "correct: no": "wrong",
    '{"extracted_final_answer": "Orsolo", "reasoning": "same", "correct": "yes", "confidence": 80}': "ok",
    "**correct:** no": "wrong",
}
_GRADES = {"A": "ok", "B": "wrong", "C": "missing", "A: CORRECT": "ok", "The names differ.\n\n**B**": "wrong"}
_NONSENSE = (
    "",
    "I cannot judge this.",
    "correct: perhaps",
    "The moon is far away",
    "A or B",
    "correct: yes\ncorrect: no",
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scorer", "replies"), [("simpleqa", _GRADES), ("hle", _YES_NO), ("browsecomp", _YES_NO)], ids=str
)
async def test_a_judge_is_asked_in_the_words_of_the_benchmark(scorer: str, replies: dict[str, str]) -> None:
    for reply, status in replies.items():
        asked = "Which {town} rules Varn?"
        found, (prompt,) = await score(scorer, "Orsolo", "I think {Orsolo}", reply, question=asked)
        assert (found.status, found.score) == (status, 1.0 if status == "ok" else 0.0), reply
        for part in (asked, "Orsolo", "I think {Orsolo}"):
            assert part in prompt
        assert "What is the capital" not in prompt


@pytest.mark.long
@pytest.mark.parametrize("scorer", ["simpleqa", "hle", "browsecomp"])
@pytest.mark.parametrize("reply", _NONSENSE)
async def test_a_reply_without_a_verdict_is_no_answer(scorer: str, reply: str) -> None:
    found, _ = await score(scorer, "Orsolo", "Orsolo", reply)
    assert (found.status, found.score) == ("judge_failed", None)
    assert "names no single verdict" in found.why


def test_a_letter_in_a_sentence_is_a_word() -> None:
    assert judged.grade("A better source says Orsolo.") is None
    assert judged.grade("A: INCORRECT") is None
    assert judged.yes_or_no("incorrect: yes") is None


@pytest.mark.long
async def test_verdicts_are_those_of_inspect_evals_where_the_judge_gives_one() -> None:
    from inspect_ai.scorer import Target
    from inspect_evals.browse_comp.browse_comp import browse_comp_scorer

    class Model:
        """Stands in for a model of inspect-ai, whose own double counts tokens with a table from the network."""

        def __init__(self, reply: str) -> None:
            self.reply = reply

        async def generate(self, prompt: str) -> Any:
            return SimpleNamespace(completion=self.reply)

    state: Any = SimpleNamespace(input_text="q", output=SimpleNamespace(completion="a"))
    for reply in (*_YES_NO, *_NONSENSE):
        model: Any = Model(reply)
        theirs = await browse_comp_scorer(model)(state, Target("t"))
        assert theirs is not None and isinstance(theirs.value, dict)
        ours = judged.yes_or_no(reply)
        if reply.startswith(("{", "**")):  # a form that it does not read, and counts as "no"
            assert theirs.value["score"] == "I" and ours in ("ok", "wrong")
        elif reply in _NONSENSE:
            assert ours is None
        else:
            assert theirs.value["score"] == ("C" if ours == "ok" else "I"), reply


async def test_a_judged_set_needs_a_judge_and_a_true_answer() -> None:
    with pytest.raises(EvaluationError, match="'q1' needs a judge; name a model for it"):
        await score("simpleqa", "Orsolo", "Orsolo")
    with pytest.raises(EvaluationError, match="'q1' needs one true answer as text; it has None"):
        await score("hle", None, "Orsolo", "correct: yes")
