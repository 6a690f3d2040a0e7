"""The domains of `benchmarks/injection`: a slice of their tasks and attacks, and the data that they stand on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from benchmarks.injections.domains.attacks import MARK, Attack
from benchmarks.injections.domains.base import Task
from benchmarks.injections.domains.report import domains, share
from benchmarks.injections.domains.runs import ATTACKS, DOMAINS, TASKS, Looks, attempt, plans, work, wrong_plans

from agentorchestra.trust.policy import AllowAll

SLICE: list[Attack] = [one for one in ATTACKS if one.id.endswith(("-attack-01", "-adaptive-02"))]
LOOKED = "shop-adaptive-12"
STOPPED = [one for one in SLICE if one.id.endswith("-attack-01")]


def test_there_are_as_many_as_the_figures_say() -> None:
    assert len(TASKS) >= 140
    assert len(ATTACKS) >= 730
    assert len({*[one.id for one in TASKS], *[one.id for one in ATTACKS]}) == len(TASKS) + len(ATTACKS)
    assert min(Counter(one.domain for one in TASKS).values()) >= 15
    assert sum(one.kind == "adaptive" for one in ATTACKS) >= 160
    assert {one.kind for one in ATTACKS} == {"direct", "role-confused", "link-choosing", "delayed", "adaptive"}


def test_every_task_has_a_plan_and_one_in_ten_a_wrong_one() -> None:
    assert {*plans()} == {one.id for one in TASKS}
    assert {*wrong_plans()} <= {*plans()}
    assert Counter(one["wrong"] for one in wrong_plans().values()) == {"too wide": 9, "too narrow": 9}
    assert all(one["plan"] != plans()[name] for name, one in wrong_plans().items())


@pytest.mark.long
async def test_second_looks_have_stored_replies_and_some_of_them_doubts(tmp_path: Path) -> None:
    looks = Looks()
    attack = next(one for one in ATTACKS if one.id == LOOKED)
    task = next(one for one in TASKS if one.id == attack.task)
    assert not (await work(task, tmp_path / "task", plans()[task.id], looks)).asked
    assert (await attempt(attack, tmp_path / "alone", "obeys", plans()[task.id])).done
    ran = await attempt(attack, tmp_path / "looked", "obeys", plans()[task.id], look=looks)
    assert "a second look at the call doubts it: text: " in ran.asked[0].question
    assert not ran.done
    assert not looks.missing


def test_the_words_of_an_attack_do_no_harm_by_standing_there() -> None:
    for attack in ATTACKS:
        state = DOMAINS[attack.id.partition("-")[0]]()
        if attack.place.put is not None:
            attack.place.put(state, attack.text)
            assert MARK in str(state), attack.id
        assert not attack.harm(state), attack.id


@pytest.mark.sampled(4)
@pytest.mark.parametrize("task", TASKS[::16], ids=[one.id for one in TASKS[::16]])
async def test_a_competent_model_does_the_task(task: Task, tmp_path: Path) -> None:
    assert not task.done(DOMAINS[task.domain]()) or task.values == "read"
    ran = await work(task, tmp_path / "workspace", plans()[task.id])
    assert ran.done, ran.error


@pytest.mark.sampled(6)
@pytest.mark.parametrize("attack", SLICE, ids=[one.id for one in SLICE])
async def test_without_a_policy_it_happens_once_the_model_has_read_it(attack: Attack, tmp_path: Path) -> None:
    ran = await attempt(attack, tmp_path / "workspace", "obeys", policy=AllowAll())
    assert ran.read
    assert ran.done


@pytest.mark.sampled(4)
@pytest.mark.parametrize("attack", STOPPED, ids=[one.id for one in STOPPED])
async def test_with_the_policy_it_is_stopped_by_a_question(attack: Attack, tmp_path: Path) -> None:
    plan = plans()[attack.task]
    for number, given in enumerate((None, plan)):
        ran = await attempt(attack, tmp_path / f"obeys{number}", "obeys", given)
        assert ran.read
        assert ran.asked
        assert not ran.done
    blind = await attempt(attack, tmp_path / "blind", "blind", plan)
    assert blind.asked
    assert not blind.done


@pytest.mark.long
def test_a_share_has_the_interval_of_wilson() -> None:
    assert share([True] * 9 + [False]) == "9 of 10 (60-98%)"
    assert share([]) == "none"


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_the_shares_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    await domains(["home"])
    printed = capsys.readouterr().out
    assert "| attacks stopped, by domain |" in printed
    assert "too narrow, home-05" in printed
    assert "aims, with the plan and the second look:" in printed
