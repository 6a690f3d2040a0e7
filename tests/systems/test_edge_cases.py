"""The edge cases of 003 (sec. 4.4.2, fig. 5): an agent's reply breaks a condition of the task, and claims success.

Each is a task on files whose names and numbers are made from a seed. CORAL and OWL run on the same tools with the same
model (`tests/support/solver.py`), which breaks both tasks up in the same way, and finds an error exactly when one
request holds the condition and the reply that breaks it. In CORAL that is the request of who leads; in OWL a request
holds the task or a reply, never both, until it is too late to act on it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from examples.tasks.task import names, write

from agentorchestra import Workspace
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.testing import Body, LoopbackModelServer
from tests.sandbox.support import usable
from tests.support import rules, solver


@dataclass(frozen=True)
class Case:
    """A task in which an agent's reply breaks a condition.

    Attributes:
        pieces: what is to be done, one after the other.
        condition: a sentence of the question.
        key: the words of it that say the condition.
        breaks, keeps: what of a reply breaks it, and what would keep it.
        right, wrong: the answer, and the one on the wrong premise.
        files: their names and texts.
    """

    pieces: tuple[str, str]
    condition: str
    key: str
    breaks: str
    keeps: str
    ask: str
    right: str
    wrong: str
    files: dict[str, str]

    @property
    def question(self) -> str:
        """What is asked."""
        return " ".join((*self.pieces, self.condition, self.ask))


def winners(chance: random.Random, *, whole: bool = False) -> Case:
    """Winners of a show: the file that is asked first lacks the dates of birth of some, the one born last among them.

    `whole`: it lacks none.
    """
    people = names(chance, 12)
    born = {one: date(1960, 1, 1) + timedelta(days=chance.randrange(12_000)) for one in people}
    order = sorted(people, key=lambda one: born[one])
    missing = set() if whole else {order[-1], *chance.sample(order[:-2], 3)}
    shows = [f"{one},{n},{'unknown' if one in missing else born[one]}" for n, one in enumerate(people, start=1)]
    others = names(chance, 30)[:10]
    register = [f"{one},{born.get(one, date(1999, 1, 1))}" for one in sorted({*people, *others})]
    return Case(
        pieces=(
            "First list the winner of each season with season and birthday, as winners.csv has them.",
            "Then name the winner of these with the latest birthday.",
        ),
        condition="No birthday may be unknown, register.csv has more of them.",
        key="No birthday may be unknown",
        breaks="| unknown |",
        keeps="| 1960-02-01 |",
        ask="Who is it?",
        right=order[-1],
        wrong=order[-1] if whole else order[-2],
        files={
            "winners.csv": "\n".join(["winner,season,birthday", *shows]),
            "register.csv": "\n".join(["winner,birthday", *register]),
        },
    )


def albums(chance: random.Random, *, whole: bool = False) -> Case:
    """Albums of two singers, some of the very year before which they had to come out. `whole`: none of that year."""
    mine, hers, *others = names(chance, 5)
    titles = names(chance, 20)
    rows, tracks = [], {}
    for number, title in enumerate(titles):
        artist = (mine, hers, *others)[number % 5]
        year = chance.randint(1990, 1998) if whole or number % 5 > 1 or number < 10 else 1999
        rows.append((title, artist, year))
        tracks[title] = chance.randint(8, 19)
    total = {
        last: sum(tracks[one] for one, who, year in rows if who in (mine, hers) and year <= last)
        for last in (1998, 1999)
    }
    return Case(
        pieces=(
            f"First list the album titles of {mine} and {hers} with artist and year, as albums.csv has them.",
            "Then add up the tracks that tracks.csv gives for these.",
        ),
        condition="Only what was released before 1999 counts.",
        key="before 1999",
        breaks="| 1999 |",
        keeps="| 1998 |",
        ask="How many tracks are there?",
        right=str(total[1998]),
        wrong=str(total[1999]),
        files={
            "albums.csv": "\n".join(["title,artist,year", *(f"{a},{b},{c}" for a, b, c in rows)]),
            "tracks.csv": "\n".join(["title,tracks", *(f"{a},{b}" for a, b in tracks.items())]),
        },
    )


def books(chance: random.Random, *, whole: bool = False) -> Case:
    """Books and the days that they took: the first file has their pages, in place of words. `whole`: it has words."""
    titles = names(chance, 10)
    days = {one: chance.randint(4, 20) for one in titles}
    slow, dense = titles[:2]  # most days for its words, and for its pages
    words = {one: chance.randint(300, 900) * 10 * days[one] for one in titles} | {slow: 2000 * days[slow]}
    pages = {one: chance.randint(20, 40) * days[one] for one in titles} | {dense: 11 * days[dense]}
    counted, rows = ("words", words) if whole else ("pages", pages)
    return Case(
        pieces=(
            "First work out from reading.csv how much of each book was read per day.",
            "Then name the slowest of these.",
        ),
        condition="Speed is in words per day, and words.csv has the words of each.",
        key="words per day",
        breaks="pages per day",
        keeps="words per day",
        ask="Which book is it?",
        right=slow,
        wrong=slow if whole else dense,
        files={
            "reading.csv": "\n".join([f"book,{counted},days", *(f"{one},{rows[one]},{days[one]}" for one in titles)]),
            "words.csv": "\n".join(["book,words", *(f"{one},{words[one]}" for one in titles)]),
        },
    )


CASES: tuple[Callable[..., Case], ...] = (winners, albums, books)
cases = pytest.mark.parametrize("make", CASES, ids=lambda one: one.__name__)


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    usable("bubblewrap")


@dataclass(frozen=True)
class Played:
    """A run, and what its model was asked and replied, in order."""

    result: RunResult
    requests: Sequence[Body]

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """What each request was answered by: the name of a call and its arguments, or "" and the words."""
        replies = [solver.solve(body) for body in self.requests]
        return [
            (one.tool_calls[0].name, one.tool_calls[0].arguments) if one.tool_calls else ("", one.text)
            for one in replies
        ]


async def play(case: Case, system: str, folder: Path) -> Played:
    """Run a case on a system."""
    given = folder / "given"
    given.mkdir(exist_ok=True)
    files = [write(given, name, f"{text}\n") for name, text in case.files.items()]
    async with LoopbackModelServer(solver.solve) as server:
        settings = Settings(models={"local": ModelProfile(model="local-model", base_url=server.base_url)})
        async with Workspace(folder / system, settings=settings) as ws:
            result = await ws.run(case.question, system=system, model="local", files=files)
    return Played(result, server.requests)


def answer(given: Any) -> str:
    """The answer in the arguments of a call, "" where there is none."""
    return str(given.get("answer", "")) if isinstance(given, dict) else ""


def text(body: Body) -> str:
    """All that a request shows."""
    return "\n".join(str(one.get("content")) for one in body["messages"])


def holds(case: Case, body: Body) -> tuple[bool, bool]:
    """Whether a request holds the condition, and whether a reply that breaks it."""
    return case.key in text(body), case.breaks in text(body)


def written(played: Played) -> list[str]:
    """The messages that hand out work."""
    return [
        given["content"] for name, given in played.calls if name == "send_message" and "found" not in given["content"]
    ]


@pytest.mark.long
@pytest.mark.sampled(3)
@cases
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
async def test_coral_is_right_where_owl_goes_on_with_the_wrong_premise(
    tmp_path: Path, make: Callable[..., Case], seed: int
) -> None:
    case = make(random.Random(seed))
    assert case.right != case.wrong
    coral, owl = await play(case, "coral", tmp_path), await play(case, "owl", tmp_path)
    assert (coral.result.status, coral.result.answer) == (RunStatus.COMPLETED, case.right)
    assert (owl.result.status, owl.result.answer) == (RunStatus.COMPLETED, case.wrong)
    # The model finds an error in what it is shown where both are there, whoever is asked, and nowhere else.
    for body in (*coral.requests, *owl.requests):
        assert bool(rules.broken(text(body), text(body))) == (holds(case, body) == (True, True))
    # OWL: the wrong premise is worked with before any request holds both. Who answers sees both, and can ask nobody.
    wrong = next(n for n, (_, given) in enumerate(owl.calls) if answer(given) == case.wrong)
    seen = [holds(case, body) for body in owl.requests[: wrong + 1]]
    assert {*seen} == {(False, False), (True, False), (False, True)}
    assert [holds(case, body) for body in owl.requests[wrong + 1 :]] == [(True, True)]
    assert not owl.requests[-1].get("tools")
    # CORAL: the first request that holds both is answered by the same piece of work with the condition.
    first = next(n for n, body in enumerate(coral.requests) if holds(case, body) == (True, True))
    again = f"{case.pieces[0]} {case.condition}"
    assert coral.calls[first][1]["content"] == again
    assert [one.split("\n\n")[0] for one in written(coral)] == [case.pieces[0], again, case.pieces[1]]
    # Where the reply keeps the condition, the same request is answered by the next piece of work.
    kept = json.loads(json.dumps(coral.requests[first]).replace(case.breaks, case.keeps))
    (call,) = solver.solve(kept).tool_calls
    assert call.name in ("create_thread", "send_message") and "found" not in str(call.arguments)
    assert case.pieces[0] not in str(call.arguments)


@pytest.mark.long
@pytest.mark.parametrize(
    "make", [winners, pytest.param(albums, marks=pytest.mark.long), pytest.param(books, marks=pytest.mark.long)]
)
async def test_no_error_is_found_where_there_is_none(tmp_path: Path, make: Callable[..., Case]) -> None:
    case = make(random.Random(1), whole=True)
    coral = await play(case, "coral", tmp_path)
    assert (coral.result.status, coral.result.answer) == (RunStatus.COMPLETED, case.right)
    assert [one.split("\n\n")[0] for one in written(coral)] == [*case.pieces]


@pytest.mark.parametrize(
    "make", [pytest.param(winners, marks=pytest.mark.long), albums, pytest.param(books, marks=pytest.mark.long)]
)
async def test_what_the_task_does_not_ask_for_is_no_error(tmp_path: Path, make: Callable[..., Case]) -> None:
    case = make(random.Random(1))
    coral = await play(replace(case, condition=""), "coral", tmp_path)
    assert (coral.result.status, coral.result.answer) == (RunStatus.COMPLETED, case.wrong)
    assert [one.split("\n\n")[0] for one in written(coral)] == [*case.pieces]


@pytest.mark.long
async def test_owl_is_right_where_a_worker_says_that_it_failed(tmp_path: Path) -> None:
    """Then the planner sees the task and the reply, and the same model finds the error."""
    case = books(random.Random(1))
    last = f"{case.pieces[1].removesuffix('.')} in words per day."
    owl = await play(replace(case, pieces=(case.pieces[0], last)), "owl", tmp_path)
    assert (owl.result.status, owl.result.answer) == (RunStatus.COMPLETED, case.right)
    plans = [
        (holds(case, body), reply)
        for body, (_, reply) in zip(owl.requests, owl.calls, strict=True)
        if "subtasks" in reply
    ]
    assert [one for one, _ in plans] == [(True, False), (True, True)]
    assert f"{case.pieces[0]} {last} {case.condition}" in plans[1][1]
