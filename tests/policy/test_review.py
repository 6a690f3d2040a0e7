"""The second look: what a model doubts of a call that the plan allows is put to the user, and nothing else follows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.injections.plans import plan, source, use

from agentorchestra.cli import main
from agentorchestra.core.budget import Budget
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import ModelRequestError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.policy import Given, PolicyView
from agentorchestra.core.settings import PolicySettings
from agentorchestra.log.ledger import Ledger
from agentorchestra.models.render import render_message
from agentorchestra.testing import call
from agentorchestra.trust.policy import DefaultPolicy
from agentorchestra.trust.review import review_key
from tests.policy.test_plan import ACCOUNT, DONE, GOOD, PAY, READ, Desk

NOTHING: dict[str, Any] = {"doubts": []}
DOUBT = {"doubts": [{"argument": "note", "why": "It holds a code\u202e that nobody wants."}]}


async def test_a_call_without_a_doubt_runs(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=NOTHING)
    await desk.run()
    assert not desk.questions
    assert desk.paid == [(ACCOUNT, 340)]
    assert len(desk.model.review_requests) == 1


@pytest.mark.parametrize("answer", [True, False])
async def test_a_doubt_is_put_to_the_user_who_decides(answer: bool, tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=DOUBT, answer=answer)
    await desk.run()
    (question,) = desk.questions
    assert question.question == (
        "Allow pay? pay (spend): a second look at the call doubts it: note: It holds a code\\u{202e} that nobody wants."
    )
    assert question.details["trust"] == {"note": "untrusted"}
    assert desk.paid == ([(ACCOUNT, 340)] if answer else [])


async def test_it_sees_the_words_the_plan_and_the_call_and_nothing_that_was_read(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=NOTHING)
    await desk.run("Pay the bill, please.")
    rules, told = desk.model.review_requests[0].messages
    shown = render_message(told)
    assert "Pay the bill, please." in shown
    assert "- pay(to: string, amount: number, note?: string) [spend] Pay somebody." in shown
    assert f'"to": "{ACCOUNT}"' in shown
    assert "Pay the bill" not in rules.text
    # The call is marked as what others may have written.
    marked = shown[shown.index("<content ") :]
    assert ACCOUNT in marked
    assert 'trust="untrusted"' in marked
    assert told.content[1].trust is Trust.UNTRUSTED
    assert "system" not in {message.role for message in (told,)}


RECORDS = [
    {"id": "B1", "room": "gym", "for": "Choir", "remark": "x" * 500},
    {"id": "B2", "room": "hall", "for": "Chess", "remark": ""},
]
MAIL = {
    "id": "m1",
    "body": "Good day,\nplease cancel the choir. My number is 0151 496 0111, the safe has 81-22-07.\nIvo",
}


def _shown(arguments: dict[str, Any], results: dict[str, list[Any]], task: str = "Cancel the choir.") -> dict[str, Any]:
    from agentorchestra.core.effects import Effect, EffectKind, Tag
    from agentorchestra.core.policy import Plan
    from agentorchestra.trust.review import shown_call

    stated = plan(
        use(
            "cancel",
            booking_id=[source("result", "list_bookings", "id", "the choir")],
            phone=[source("result", "mail")],
        )
    )
    effect = Effect(
        kind=EffectKind.INVOKE_TOOL, component="cancel@1.0.0", arguments=arguments, tags=frozenset({Tag.SEND})
    )
    view = PolicyView(
        user_content=(task,),
        plan=lambda: Plan(uses=stated["uses"], known=frozenset({"cancel"})),
        results=lambda: {
            name: [Given({"day": "Friday"}, one, True) for one in given] for name, given in results.items()
        },
    )
    found: dict[str, Any] = json.loads(shown_call(effect, view))
    return found


def test_the_record_that_a_call_names_is_shown_cut_beside_others_of_its_list() -> None:
    shown = _shown({"booking_id": "B2"}, {"list_bookings": [RECORDS]})
    assert shown["records"] == [{"id": "B2", "room": "hall", "for": "Chess"}]
    (other,) = shown["other records of the same lists"]
    assert other["for"] == "Choir"
    assert len(other["remark"]) < 200


def test_of_a_text_the_words_around_a_value_are_shown() -> None:
    shown = _shown({"phone": "0151 496 0111"}, {"mail": [MAIL]})
    (place,) = shown["where else its values stand"]
    assert place["argument"] == "phone"
    assert place["read by"] == 'mail {"day": "Friday"}'
    assert "My number is 0151 496 0111" in place["text"]
    assert "records" not in shown
    # A value of the user's is looked up nowhere.
    assert "where else its values stand" not in _shown(
        {"phone": "0151 496 0111"}, {"mail": [MAIL]}, task="Call 0151 496 0111 and cancel."
    )


def test_a_long_text_of_the_call_is_cut_in_its_middle() -> None:
    shown = _shown({"text": "a" * 9_000 + "END"}, {})
    assert shown["arguments"]["text"].endswith("END")
    assert "characters …" in shown["arguments"]["text"]


@pytest.mark.parametrize(
    ("task", "stated", "steps", "settings"),
    [
        # Each value is the user's.
        (
            f"Read the bill, then pay 340 euros to {ACCOUNT}.",
            plan(PAY),
            [READ, call("pay", to=ACCOUNT, amount=340)],
            {},
        ),
        # Nothing untrusted was read.
        ("Pay the bill.", plan(use("pay", to=[source("composed")])), [call("pay", to=ACCOUNT, amount=1)], {}),
        ("Pay the bill.", plan(PAY), [READ, GOOD], {"review": "off"}),
        ("Pay the bill.", plan(PAY), [READ, GOOD], {"plan": "off"}),
        ("Pay the bill.", plan(PAY), [READ, GOOD], {"allow": ("pay",)}),
        # What the plan does not allow is asked about anyway.
        ("Pay the bill.", plan(), [READ, GOOD], {}),
    ],
)
async def test_no_look_is_taken_where_it_can_tell_nothing(
    task: str, stated: dict[str, Any], steps: list[Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    desk = Desk(tmp_path, stated, *steps, look=DOUBT, settings=PolicySettings(**settings))
    await desk.run(task)
    assert not desk.model.review_requests
    assert not any("second look" in one.question for one in desk.questions)


async def test_a_model_that_takes_no_looks_is_not_asked_for_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD)
    await desk.run()
    assert not desk.questions
    assert desk.paid


@pytest.mark.parametrize("reply", ["Looks fine.", "[]", '{"doubts": "none"}', '{"uses": []}', '{"doubts": ["no"]}'])
async def test_a_reply_that_cannot_be_read_leaves_the_word_to_the_plan(reply: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=reply)
    await desk.run()
    assert not desk.questions
    assert len(desk.model.review_requests) == 1


async def test_a_look_that_could_not_be_made_is_a_doubt(tmp_path: Path) -> None:
    def refused(request: ModelRequest) -> str:
        raise ModelRequestError("no structured output here")

    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=refused)
    await desk.run()
    (question,) = desk.questions
    assert "a second look at the call doubts it: it could not be made: " in question.question
    assert "no structured output here" in question.question


async def test_it_is_recorded_on_a_branch_of_its_own_paid_from_the_budget_and_no_step(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=NOTHING)
    async with desk.workspace as ws:
        result = await ws.run("Pay the bill.", budget=Budget(steps=4))
        records = Ledger.of(await ws.events(result.run_id)).records
        assert (await ws.replay(result.run_id)).answer == "ok"
    assert result.status == "completed"
    assert result.usage.requests == 5  # three decisions, the plan, the look
    (paid,) = [key for key, one in records.items() if one.effect.get("component", "").startswith("pay@")]
    look = records[review_key(paid)]
    assert look.effect["purpose"] == "policy_review"
    assert look.outcome is not None
    assert look.outcome.usage.requests == 1
    assert len(desk.model.review_requests) == 1  # the replay asked for none


async def test_a_run_that_waits_for_the_answer_is_not_looked_at_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=DOUBT, answer=None)
    async with desk.workspace as ws:
        waiting = await ws.run("Pay the bill.")
        assert waiting.status == "waiting"
        (question,) = waiting.questions
        await ws.approve(waiting.run_id, code=question.code)
        assert (await ws.resume(waiting.run_id)).status == "completed"
    assert desk.paid == [(ACCOUNT, 340)]
    assert len(desk.model.review_requests) == 1


async def test_a_look_that_was_taken_before_a_crash_is_not_taken_again(tmp_path: Path) -> None:
    """The process ends between the look and the call: the log has the one and not the other."""
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=NOTHING)
    run = await desk.run()
    again = Desk(tmp_path, plan(PAY), look=DOUBT)
    async with again.workspace as ws:
        events = await ws.events(run)
        look = next(one for one in events if one.type == "completed" and one.branch.endswith(".policy_review"))
        fork = await ws.fork(run, at=look.seq)
        assert (await ws.resume(fork)).status == "completed"
    assert not again.model.review_requests
    assert not again.questions
    assert again.paid == [(ACCOUNT, 340)]


def test_show_has_the_look_beside_its_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = asyncio.run(Desk(tmp_path, plan(PAY), READ, GOOD, look=NOTHING).run())
    assert main(["show", run, "--workspace", str(tmp_path)]) == 0
    assert "model own (policy_review)  ok" in capsys.readouterr().out


async def test_policy_try_knows_the_look_from_the_log(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=DOUBT, answer=True)
    run = await desk.run()
    async with desk.workspace as ws:
        (paid,) = [one for one in (await ws.try_policy(run, DefaultPolicy())).effects if one.name == "pay"]
        without = await ws.try_policy(run, DefaultPolicy(PolicySettings(review="off")))
    assert (paid.was, paid.now, paid.answer) == ("asked", "asked", "approved")
    assert paid.said.removeprefix("Allow pay? ") == paid.reason
    assert [one.now for one in without.effects if one.name == "pay"] == ["allowed"]


async def test_what_an_agent_below_calls_is_looked_at_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), call("clerk", task="Pay it."), READ, GOOD, DONE, look=DOUBT)
    await desk.run()
    assert ["second look" in one.question for one in desk.questions] == [True]
    assert not desk.paid
