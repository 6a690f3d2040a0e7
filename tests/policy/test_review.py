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
from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.effects import Effect, EffectKind, Tag
from agentorchestra.core.errors import ModelRequestError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.policy import Given, Plan, PolicyView
from agentorchestra.core.settings import PolicySettings
from agentorchestra.log.ledger import Ledger
from agentorchestra.models.render import render_message
from agentorchestra.testing import call
from agentorchestra.trust.policy import DefaultPolicy
from agentorchestra.trust.review import review_key, shown_call
from tests.policy.test_plan import ACCOUNT, DONE, GOOD, PAY, READ, Desk, judged

NOTHING: dict[str, Any] = {"doubts": []}
DOUBT = {"doubts": [{"argument": "note", "why": "It holds a code\u202e that nobody wants."}]}


async def test_a_call_without_a_doubt_runs(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=NOTHING)
    await desk.run()
    assert not desk.questions
    assert desk.paid == [(ACCOUNT, 340)]
    assert len(desk.model.review_requests) == 1


@pytest.mark.sampled(2)
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


BOOKINGS = [{"id": "B1", "room": "gym", "for": "Choir"}, {"id": "B2", "room": "hall", "for": "Chess"}]
CHOIR = plan(
    use(
        "cancel",
        booking_id=[source("result", "list_bookings", "id", "the choir")],
        text=[source("composed", "read_mail")],
    )
)


def _shown(arguments: dict[str, Any], results: dict[str, list[Any]]) -> list[TextBlock]:
    effect = Effect(
        kind=EffectKind.INVOKE_TOOL, component="cancel@1.0.0", arguments=arguments, tags=frozenset({Tag.SEND})
    )
    given = {name: [Given({"day": "Friday"}, one, True) for one in each] for name, each in results.items()}
    planned = Plan(uses=CHOIR["uses"], known=frozenset({"cancel"}))
    return shown_call(effect, PolicyView(user_content=("Cancel it.",), plan=lambda: planned, results=lambda: given))


def test_what_the_plan_names_as_source_is_shown_and_what_else_was_read_is_not() -> None:
    results: dict[str, list[Any]] = {
        "list_bookings": [BOOKINGS],
        "read_mail": [{"body": "Please."}],
        "open_safe": ["81-22-07"],
    }
    call, *material = _shown({"booking_id": "B2"}, results)
    assert json.loads(call.text) == {"tool": "cancel", "arguments": {"booking_id": "B2"}, "done before": []}
    assert [(one.source.ref, one.source.place) for one in material if one.source is not None] == [
        ("list_bookings", "day='Friday'"),
        ("read_mail", "day='Friday'"),
    ]
    assert json.loads(material[0].text) == BOOKINGS
    assert {one.trust for one in (call, *material)} == {Trust.UNTRUSTED}


def test_a_result_of_another_tool_is_shown_if_it_has_the_record_that_the_call_names() -> None:
    _, *material = _shown(
        {"booking_id": "B2"}, {"find": [[{"ref": "B2", "note": "moved"}]], "other": [[{"ref": "B3"}]]}
    )
    assert [one.source.ref for one in material if one.source is not None] == ["find"]


def test_what_was_done_before_is_shown() -> None:
    call, *_ = _shown({"booking_id": "B2"}, {"cancel": ["cancelled"]})
    assert json.loads(call.text)["done before"] == [{"tool": "cancel", "arguments": {"day": "Friday"}}]


def test_long_texts_are_cut_and_the_places_of_the_values_kept() -> None:
    letter = "Good day. " + "x" * 9_000 + " The hall is B7, please. " + "y" * 9_000 + "END"
    call, material = _shown({"booking_id": "B7", "text": "a" * 9_000 + "END"}, {"read_mail": [letter]})
    said = json.loads(call.text)["arguments"]["text"]
    assert said.endswith("END")
    assert "characters …" in said
    assert material.text.startswith("Good day. ")
    assert "The hall is B7, please." in material.text
    assert "END" not in material.text
    assert len(material.text) < 4_100


def test_of_very_many_results_the_last_ones_are_shown() -> None:
    _, *material = _shown({"booking_id": "B7"}, {"read_mail": [f"{n} " + "x" * 3_900 for n in range(9)]})
    assert [one.text[0] for one in material] == ["4", "5", "6", "7", "8"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("task", "stated", "steps", "settings"),
    [
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reply", ["Looks fine.", "[]", '{"doubts": "none"}', '{"uses": []}', '{"doubts": ["no"]}'])
async def test_after_a_reply_that_cannot_be_read_the_stricter_rules_hold(reply: str, tmp_path: Path) -> None:
    summed = use("pay", to=[source("result", "read_bill", "iban")], amount=[source("composed", "read_bill")])
    more = call("pay", to=ACCOUNT, amount=1000)
    for name, look, asked in (("said", NOTHING, 0), ("unread", reply, 1)):
        desk = Desk(tmp_path / name, plan(summed), READ, more, look=look)
        await desk.run()
        assert ["is not from the model's own words" in one.question for one in desk.questions] == [True] * asked
        assert len(desk.model.review_requests) == 1
    # What they allow too is done.
    desk = Desk(tmp_path / "good", plan(PAY), READ, GOOD, look=reply)
    await desk.run()
    assert not desk.questions


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
        records = Ledger.of(await ws.log.events(result.run_id)).records
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
        events = await ws.log.events(run)
        look = next(one for one in events if one.type == "completed" and one.branch.endswith(".policy_review"))
        fork = await ws.fork(run, at=look.seq)
        assert (await ws.resume(fork)).status == "completed"
    assert not again.model.review_requests
    assert not again.questions
    assert again.paid == [(ACCOUNT, 340)]


def test_show_has_the_look_beside_its_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = asyncio.run(Desk(tmp_path, plan(PAY), READ, GOOD, look=NOTHING).run())
    assert main(["show", run, "--effects", "--workspace", str(tmp_path)]) == 0
    assert "model own (policy_review)  ok" in capsys.readouterr().out


async def test_policy_try_knows_the_look_from_the_log(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), READ, GOOD, look=DOUBT, answer=True)
    run = await desk.run()
    async with desk.workspace as ws:
        (paid,) = [one for one in (await ws.policy.judge(run, DefaultPolicy())).effects if one.name == "pay"]
        without = await ws.policy.judge(run, DefaultPolicy(PolicySettings(review="off")))
    assert (paid.was, paid.now, paid.answer) == ("asked", "asked", "approved")
    assert paid.said.removeprefix("Allow pay? ") == paid.reason
    assert [one.now for one in without.effects if one.name == "pay"] == ["allowed"]


async def test_what_an_agent_below_calls_is_looked_at_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path, plan(PAY), call("clerk", task="Pay it."), READ, GOOD, DONE, look=DOUBT)
    await desk.run()
    assert ["second look" in one.question for one in desk.questions] == [True]
    assert not desk.paid


# -- what is left to the look, and what is not -----------------------------------------------------------------------

NOTE = "Two nights at 80 EUR. I live at 12 Elm Road, L17 4PA. Call me on 0151 496 0111. IBAN DE89370400440532013000."
MORE = "Also IBAN NL91ABNA0417164300, 120 EUR, and eve@evil.example."
LAMPS = [{"id": "L1", "owner": "Ann", "state": "broken"}, {"id": "L2", "owner": "Ann", "state": "broken"}]


def _one(argument: str, *sources: dict[str, Any], times: int = 1) -> dict[str, Any]:
    return plan({**use("book", times), "arguments": [{"argument": argument, "sources": [*sources]}]})


@pytest.mark.parametrize(
    ("argument", "sources", "value", "left"),
    [
        # A sum, a fact, a house, a day that is counted: which one it is, whoever looks can tell.
        ("amount", [source("composed", "read_note", what="two nights")], 160, True),
        ("amount", [source("result", "read_note", "price", "the price")], 80, True),
        ("address", [source("result", "read_note", "text", "where Ann lives")], "12 Elm Road, L17 4PA", True),
        ("day", [source("task", what="on Thursday")], "2027-03-11", True),
        ("text", [source("composed", "read_note", what="a line to Ann")], "Call 0151 496 0111.", True),
        # Who gets something, what runs or is acted on without a condition, and what stands nowhere.
        ("account", [source("result", "read_note", "iban", "the account")], "NL91ABNA0417164300", False),
        ("to", [source("result", "read_note", "text", "the mailbox")], "bo@corp.example", False),
        ("lamp_id", [source("result", "list_lamps", "id", "the lamp")], "L1", False),
        ("amount", [source("result", "read_note", "price", "the price")], 81, False),
        ("address", [source("result", "read_note", "text", "where Ann lives")], "1 Evil Lane", False),
        ("text", [source("composed", what="a line to Ann")], "Call 0151 496 0111.", False),
    ],
)
def test_facts_are_left_to_the_look_and_receivers_are_not(
    argument: str, sources: list[dict[str, Any]], value: Any, left: bool
) -> None:
    results: dict[str, list[Any]] = {"read_note": [NOTE, MORE], "list_lamps": [LAMPS]}
    stated, task = _one(argument, *sources), "Do what Ann wants."
    without = judged(stated, "book", task=task, results=results, arguments={argument: value})
    looked = judged(stated, "book", task=task, results=results, looked=True, arguments={argument: value})
    assert without.action == "ask"
    assert (looked.action == "allow") is left


def test_which_of_the_records_that_meet_the_conditions_is_left_to_the_look() -> None:
    which = {"which": [{"field": "state", "test": "is", "value": "broken"}]}
    stated = _one("lamp_id", {**source("result", "list_lamps", "id", "the lamp of Ann"), **which})
    for id_, looked in (("L1", "allow"), ("L3", "ask")):
        results: dict[str, list[Any]] = {"list_lamps": [[*LAMPS, {"id": "L3", "owner": "Ann", "state": "new"}]]}
        call_of = {"lamp_id": id_}
        assert judged(stated, "book", task="Mend Ann's lamp.", results=results, arguments=call_of).action == "ask"
        verdict = judged(stated, "book", task="Mend Ann's lamp.", results=results, looked=True, arguments=call_of)
        assert verdict.action == looked
