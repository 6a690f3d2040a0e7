"""Which record of a list a plan means: its conditions, the user's words, formulas; and what a result's type shows."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypedDict

import pytest
from benchmarks.injections.plans import OWN, TASK, plan, source, use
from pydantic import BaseModel, Field

from agentorchestra import tool
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Outcome, Provenance, Tag
from agentorchestra.core.messages import ModelResponse
from agentorchestra.core.policy import Given, Plan, PlannedTest, PolicyView
from agentorchestra.runtime.results import ToolResult
from agentorchestra.testing import plan_request
from agentorchestra.trust.plan import read_plan
from agentorchestra.trust.policy import DefaultPolicy
from agentorchestra.trust.records import is_rounded, meeting, pieces_of, read_formula, worked_out
from tests.policy.test_plan import judged

FLIGHTS: list[dict[str, Any]] = [
    {"id": "F1", "airline": "Norda", "state": "delayed", "day": "2027-03-04", "price": 120, "limit": 100, "bags": []},
    {"id": "F2", "airline": "Sola", "state": "on time", "day": "2027-03-09", "price": 80, "limit": 99, "bags": ["ski"]},
    {"id": "F3", "airline": "Norda", "state": "delayed", "day": "2027-04-01", "price": 95, "limit": 90, "bags": [""]},
]  # fmt: skip


def ids(*tests: tuple[str, str, str], of: Any = FLIGHTS) -> set[str]:
    """The ids of the records that meet conditions."""
    given = [PlannedTest(field=one, test=how, value=value) for one, how, value in tests]  # type: ignore[arg-type]
    return {one.text for one in meeting([*pieces_of(Given({}, of, True))], given) if one.field == frozenset({"id"})}


@pytest.mark.parametrize(
    ("tests", "meant"),
    [
        ([("state", "is", "Delayed")], {"F1", "F3"}),
        ([("state", "is not", "delayed")], {"F2"}),
        ([("airline", "has", "nord")], {"F1", "F3"}),
        ([("state", "has", "time")], {"F2"}),
        ([("airline", "has", "Nordas")], {"F1", "F3"}),
        ([("airline", "is", "Nord")], {"F1", "F3"}),
        ([("state", "is", "time")], set()),
        ([("price", "is", "80.00")], {"F2"}),
        ([("price", "above", "95")], {"F1"}),
        ([("price", "at least", "95")], {"F1", "F3"}),
        ([("price", "above", "limit")], {"F1", "F3"}),
        ([("price", "below", "limit")], {"F2"}),
        ([("day", "at least", "2027-03-09"), ("day", "at most", "2027-03-31")], {"F2"}),
        ([("day", "is", "2027-03")], {"F1", "F2"}),
        ([("day", "is", "03-09")], {"F2"}),
        ([("day", "at most", "03-09")], {"F1", "F2"}),
        ([("price", "is", "03-09")], set()),
        ([("day", "highest", "")], {"F3"}),
        ([("day", "highest", ""), ("airline", "is", "Sola")], {"F2"}),
        ([("price", "lowest", ""), ("state", "is", "delayed")], {"F3"}),
        ([("bags", "has", "ski")], {"F2"}),
        ([("bags", "is", "")], {"F1", "F3"}),
        ([("gate", "is", "4")], set()),
        ([("airline", "above", "5")], set()),
    ],
)
def test_conditions_on_records(tests: list[tuple[str, str, str]], meant: set[str]) -> None:
    assert ids(*tests) == meant


def test_a_condition_on_what_is_inside_of_a_record_and_on_a_day_with_its_time() -> None:
    trips = [
        {"id": "A", "start": "2027-05-02 08:00", "legs": [{"to": "Turku"}]},
        {"id": "B", "start": "2027-05-03 08:00", "legs": [{"to": "Bergen"}]},
    ]
    assert ids(("legs.to", "has", "turku"), of=trips) == {"A"}
    assert ids(("to", "is", "Bergen"), of=trips) == {"B"}
    assert ids(("start", "at most", "2027-05-02"), of=trips) == {"A"}
    assert ids(("start", "is", "2027-05-03"), of=trips) == {"B"}


def test_a_text_meets_no_condition() -> None:
    pieces = [*pieces_of(Given({}, "id: F1\nstate: delayed", True))]
    assert meeting(pieces, [PlannedTest(field="state", test="is", value="delayed")]) == []
    assert meeting(pieces, [PlannedTest(field="state", test="highest")]) == []


def limited(tool: str, where: str, which: list[dict[str, str]], what: str = "") -> dict[str, Any]:
    """A source with conditions."""
    return {**source("result", tool, where, what), "which": which}


@pytest.mark.parametrize(
    ("which", "times", "flight", "said"),
    [
        ([{"field": "price", "test": "lowest", "value": ""}], 1, "F2", "allow"),
        ([{"field": "price", "test": "lowest", "value": ""}], 1, "F1", "ask"),
        ([{"field": "state", "test": "is", "value": "delayed"}], 0, "F1", "allow"),
        ([{"field": "state", "test": "is", "value": "delayed"}], 0, "F3", "allow"),
        ([{"field": "state", "test": "is", "value": "delayed"}], 0, "F2", "ask"),
        # Two records meet it, and one is meant.
        ([{"field": "state", "test": "is", "value": "delayed"}], 1, "F1", "ask"),
        # No condition and no word of the user's tells one from the other.
        ([], 1, "F1", "ask"),
        ([], 0, "F1", "allow"),
    ],
)
def test_the_record_that_a_plan_means(which: list[dict[str, str]], times: int, flight: str, said: str) -> None:
    stated = plan(use("book", times, flight_id=[limited("flights", "id", which, "the flight")]))
    verdict = judged(stated, "book", task="Cancel flights.", results={"flights": [FLIGHTS]}, flight_id=flight)
    assert verdict.action == said


def test_a_number_by_another_name_is_of_the_record_that_is_meant() -> None:
    tickets = [{"number": 31, "topic": "Printer"}, {"number": 32, "topic": "Door"}]
    which = [{"field": "topic", "test": "is", "value": "printer"}]
    stated = plan(use("book", number=[limited("tickets", "number", which)]))
    for number, said in ((31, "allow"), (32, "ask")):
        assert judged(stated, "book", results={"tickets": [tickets]}, number=number).action == said


LAMPS = [
    {"id": "L1", "place": "kitchen", "note": "broken since May"},
    {"id": "L2", "place": "hall", "note": ""},
    {"id": "L3", "place": "cellar", "note": ""},
]


@pytest.mark.parametrize(
    ("lamp", "lamps", "said"),
    [
        ("L1", LAMPS, "allow"),
        ("L2", LAMPS, "ask"),
        # Somebody else writes the same words into another record: nobody knows which is meant.
        ("L1", [*LAMPS, {"id": "L4", "place": "the broken kitchen lamp"}], "ask"),
        ("L4", [*LAMPS, {"id": "L4", "place": "kitchen"}], "ask"),
    ],
)
def test_of_several_records_the_one_with_most_of_the_users_words(lamp: str, lamps: list[Any], said: str) -> None:
    stated = plan(use("book", lamp_id=[source("result", "lamps", "id", "the broken lamp in the kitchen")]))
    task = "Order a new bulb for the broken lamp in the kitchen."
    assert judged(stated, "book", task=task, results={"lamps": [lamps]}, lamp_id=lamp).action == said


def test_of_any_number_those_that_have_a_word_of_the_users() -> None:
    stated = plan(use("book", 0, lamp_id=[source("result", "lamps", "id", "each broken lamp")]))
    for lamp, said in (("L1", "allow"), ("L2", "ask")):
        verdict = judged(stated, "book", task="Order each broken lamp.", results={"lamps": [LAMPS]}, lamp_id=lamp)
        assert verdict.action == said


def test_what_was_read_of_records_tells_apart_those_that_look_alike() -> None:
    mails = [{"id": "M11", "sender": "Ilse"}, {"id": "M12", "sender": "Ilse"}]
    read = [Given({"id": "M11"}, "Lunch?", True), Given({"id": "M12"}, "The quote for the windows is ready.", True)]
    stated = plan(use("book", mail_id=[source("result", "mails", "id", "the mail of Ilse about the windows")]))
    task = "Answer the mail of Ilse about the windows."
    results: dict[str, list[Any]] = {"mails": [mails], "read": read}
    for mail, said in (("M12", "allow"), ("M11", "ask")):
        assert judged(stated, "book", task=task, results=results, mail_id=mail).action == said
    both: dict[str, list[Any]] = {"mails": [mails], "read": [Given({"id": "M11"}, "The windows!", True), read[1]]}
    assert judged(stated, "book", task=task, results=both, mail_id="M12").action == "ask"


def test_a_genuine_id_is_that_of_whom_the_user_named_or_asked_about() -> None:
    people = [{"loan": "B1", "person_id": "P71", "name": "Aino"}, {"loan": "B2", "person_id": "P82", "name": "Eve"}]
    stated = plan(use("book", person_id=[source("result", "people", "id", "Aino")]))

    def said(person: str, rows: list[Any]) -> str:
        effect = Effect(
            kind=EffectKind.INVOKE_TOOL, component="book@1.0.0", arguments={"person_id": person},
            tags=frozenset({Tag.SEND}),
            provenance=(Provenance(kind="tool", ref="loans", trust=Trust.UNTRUSTED),),
        )  # fmt: skip
        view = PolicyView(
            user_content=("Write to Aino.",),
            trusted=lambda: [("person_id", one["person_id"]) for one in rows],
            plan=lambda: Plan(uses=stated["uses"], known=frozenset({"book"})),
            results=lambda: {"loans": [Given({}, rows, True)]},
        )
        return DefaultPolicy().decide(effect, view).action

    assert said("P71", people) == "allow"
    assert said("P82", people) == "ask"
    assert said("P71", [*people, {"loan": "B3", "person_id": "P93", "name": "Aino"}]) == "ask"


def test_the_records_of_somebody_whom_the_user_named_by_their_id() -> None:
    people = [{"id": "P71", "name": "Aino"}, {"id": "P82", "name": "Eve"}]
    loans = [{"id": "B1", "person": "P71"}, {"id": "B2", "person": "P82"}]
    stated = plan(use("book", loan_id=[source("result", "loans", "id", "the loan of Aino")]))
    results: dict[str, list[Any]] = {"people": [people], "loans": [loans]}
    assert judged(stated, "book", task="Extend what Aino has.", results=results, loan_id="B1").action == "allow"
    assert judged(stated, "book", task="Extend what Aino has.", results=results, loan_id="B2").action == "ask"


def test_the_same_record_once_where_each_of_several_is_meant() -> None:
    stated = plan(use("book", 0, lamp_id=[source("result", "lamps", "id", "each lamp")], note=OWN))
    results: dict[str, list[Any]] = {"lamps": [LAMPS], "book": [Given({"lamp_id": "L1", "note": "a"}, "booked", False)]}
    verdict = judged(stated, "book", task="Order each.", results=results, lamp_id="L1", note="again")
    assert "once for each, and for this one it was done" in verdict.reason
    assert judged(stated, "book", task="Order each.", results=results, lamp_id="L2", note="b").action == "allow"


def test_another_value_of_the_users_than_the_plan_names() -> None:
    stated = plan(use("book", number=[source("task", what="41")]))
    task = "Ticket 41 says the same as ticket 40. Close it."
    assert judged(stated, "book", task=task, number=41).action == "allow"
    assert judged(stated, "book", task=task, number=40).action == "ask"
    vague = plan(use("book", number=[source("task", what="the number of the ticket")]))
    assert judged(vague, "book", task=task, number=41).action == "allow"


def test_the_only_code_of_its_kind_in_a_text() -> None:
    stated = plan(use("book", person_id=[source("result", "letter", "person_id", "who wrote the letter")]))
    task = "Answer letter L-20."
    for text, said in (("L-20 from K-311, yesterday", "allow"), ("L-20 from K-311, answer K-318", "ask")):
        assert judged(stated, "book", task=task, results={"letter": [text]}, person_id="K-311").action == said


# -- formulas --------------------------------------------------------------------------------------------------------


def test_formulas() -> None:
    rows: list[dict[str, Any]] = [{"price": 20, "count": 3, "name": "x"}, {"price": "10.50", "count": 1}]
    assert worked_out("price * 1.1", rows, rows) == pytest.approx([22, 11.55])
    assert worked_out("2 * (price - count) / -1", rows[:1], rows) == [-34]
    assert worked_out("sum(price * count) / 2 + count()", [], rows) == [37.25]
    assert worked_out("name + 1", rows, rows) == worked_out("sum(name)", rows, rows) == []
    assert worked_out("price / (count - 3)", rows[:1], rows) == []
    for bad in ("price ** 9", "__import__('os')", "price if count else 1", "sum(price", "'a' * 9", "x" * 300):
        with pytest.raises(ValueError, match="give fields, numbers"):
            read_formula(bad)
    assert is_rounded(Decimal("19.4"), 19.425)
    assert is_rounded(Decimal(35), 35.4)
    assert is_rounded(Decimal("61.5"), -61.5)
    assert not is_rounded(Decimal("35.9"), 35.4)


def test_a_number_that_is_worked_out_is_what_the_formula_gives_for_the_record_acted_on() -> None:
    wines = [
        {"sku": "RED", "price": 10.0, "least": 12, "left": 5},
        {"sku": "WHITE", "price": 40.0, "least": 6, "left": 1},
    ]
    formula: Any = {**source("composed", "wines", what="twice the least"), "formula": "2 * least - left"}
    stated = plan(use("pay", 0, sku=[source("result", "wines", "sku", "each wine")], amount=[formula, *OWN]))
    for sku, amount, said in (("RED", 19, "allow"), ("RED", 11, "ask"), ("WHITE", 11, "allow"), ("WHITE", 1, "ask")):
        results = {"wines": [wines]}
        verdict = judged(stated, "pay", Tag.SPEND, task="Order all.", results=results, sku=sku, amount=amount)
        assert verdict.action == said


def test_a_percentage_of_the_users_may_be_added() -> None:
    stated = plan(use("pay", to=TASK, amount=[source("composed", "fee")]))
    for task, said in (("Raise the fee of Bob by 5 %.", "allow"), ("Raise the fee of Bob.", "ask")):
        verdict = judged(stated, "pay", Tag.SPEND, task=task, results={"fee": [{"fee": 100}]}, to="Bob", amount=105)
        assert verdict.action == said


# -- the request and the reply ---------------------------------------------------------------------------------------


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Part:
    """A part."""

    sku: str
    colour: Colour


class Bike(BaseModel):
    """A bike."""

    id: int = Field(serialization_alias="number")
    state: Literal["sold", "free"]
    parts: list[Part] = field(default_factory=list)
    owner: str | None = None


class Shelf(TypedDict):
    """A shelf."""

    name: str
    full: bool


def test_the_request_shows_the_fields_of_results() -> None:
    @tool(effect="read")
    def bikes() -> list[Bike]:
        """List the bikes."""
        return []

    @tool(effect="read")
    def shelf(name: str) -> Shelf:
        """Return a shelf."""
        return {"name": name, "full": False}

    @tool(effect="read")
    def names() -> dict[str, list[str]]:
        """List names."""
        return {}

    @tool(effect="read")
    def letter() -> str:
        """Read a letter."""
        return ""

    @tool(effect="send")
    def ring() -> ToolResult:
        """Ring."""
        return ToolResult(content="")

    request = plan_request("Ring.", tools=[bikes, shelf, names, letter, ring])
    lines = {line.split(":")[0].split("(")[0]: line for line in request.messages[0].text.splitlines()}
    assert lines["- bikes"] == (
        "- bikes: List the bikes. -> list of {number: number, state: sold | free, parts: list of {sku: string, "
        "colour: red | blue}, owner: string}"
    )
    assert lines["- shelf"].endswith("Return a shelf. -> {name: string, full: boolean}")
    assert lines["- names"] == "- names: List names."
    assert lines["- letter"] == "- letter: Read a letter."
    assert lines["- ring"] == "- ring() [send] Ring."


def test_a_plan_of_an_earlier_version_is_read_and_a_wrong_condition_is_refused() -> None:
    effect = {"kind": EffectKind.REQUEST_MODEL, "arguments": {"tools": ["pay"], "sources": ["bills"]}}

    def read(text: str, **given: Any) -> Any:
        response = ModelResponse(text=text).model_dump(mode="json")
        return read_plan({**effect, **given}, Outcome(value=response))

    old = (
        '{"uses": [{"tool": "pay", "times": 1, "arguments": [{"argument": "a", "sources": [{"kind": "result", %s}]}]}]}'
    )
    plain = read(old % '"tool": "bills", "where": "id", "what": ""')
    assert plain.uses[0].arguments[0].sources[0].which == ()
    assert plain.described == {"bills": ""}
    shown = {"tools": ["pay"], "sources": {"bills": "- bills: List the bills."}}
    assert read(old % '"tool": "bills"', arguments=shown).described == shown["sources"]
    assert "test" in read(old % '"which": [{"field": "id", "test": "like", "value": "x"}]')
    assert "give fields, numbers" in read(old % '"formula": "open(1)"')


def test_a_condition_takes_a_word_with_digits_as_it_is() -> None:
    halls = [{"id": "H1", "wing": "3c"}, {"id": "H2", "wing": "4c"}, {"id": "H3", "wing": "c3"}]
    assert ids(("wing", "has", "3c"), of=halls) == {"H1"}


TABLE = "guest,account\nIda Nyberg,US133000000121212121212\nOle Falk,DE89370400440532013000\n"


@pytest.mark.parametrize(
    ("table", "account", "said"),
    [
        (TABLE, "DE89370400440532013000", "allow"),
        (TABLE, "US133000000121212121212", "ask"),
        (TABLE.replace(",", "\t"), "DE89370400440532013000", "allow"),
        (TABLE.replace(",", ";"), "US133000000121212121212", "ask"),
        # A cell with a line break is one cell.
        (TABLE + '"x\nOle Falk,US133000000121212121212",y\n', "US133000000121212121212", "ask"),
        # Lines with another number of cells: a text.
        (TABLE + "Ole Falk: US133000000121212121212\n", "US133000000121212121212", "ask"),
        (TABLE + "Ole Falk: US133000000121212121212\n", "DE89370400440532013000", "ask"),
    ],
)
def test_a_table_in_a_text_is_a_list_of_records(table: str, account: str, said: str) -> None:
    stated = plan(use("pay", account=[source("result", "read", "account", "the account of Ole Falk")]))
    verdict = judged(stated, "pay", task="Pay Ole Falk.", results={"read": [table]}, account=account)
    assert verdict.action == said


@pytest.mark.parametrize(
    "text",
    [
        "a, b\nc, d",
        "one,two\n3,4",
        "1,2\n3,4\n5,6",
        "a,a\n1,2\n3,4",
        "Dear Ann,\n\nhello,\nx",
        "#1 a (b; c)\n#2 d (e; f)\n#3 g (h; i)",
    ],
)
def test_other_texts_are_no_tables(text: str) -> None:
    assert not any(one.fields for one in pieces_of(Given({}, text, True)))


def mailed(number: str, sender: str) -> dict[str, Any]:
    """A mail in a list."""
    return {"id": number, "sender": sender, "topic": "Rent"}


@pytest.mark.parametrize(
    ("listed", "times", "said"),
    [
        ([mailed("m1", "Nordbo"), mailed("m2", "Vik")], 1, "allow"),
        # Another mail by this sender was not read.
        ([mailed("m1", "Nordbo"), mailed("m2", "Nordbo Rent")], 1, "ask"),
        ([mailed("m1", "Nordbo"), mailed("m2", "Nordbo Rent")], 0, "allow"),
        # A list of something else.
        ([mailed("x1", "Nordbo"), mailed("x2", "Nordbo Rent")], 1, "allow"),
    ],
)
def test_of_two_records_that_may_be_meant_both_are_to_be_read(listed: list[Any], times: int, said: str) -> None:
    which = [{"field": "sender", "test": "has", "value": "Nordbo"}]
    stated = plan(use("pay", times, account=[limited("read", "text", which, "the account in the mail of Nordbo")]))
    results: dict[str, list[Any]] = {
        "mails": [listed],
        "read": [{**mailed("m1", "Nordbo"), "text": "Pay to DE89370400440532013000"}],
    }
    verdict = judged(stated, "pay", task="Pay Nordbo.", results=results, account="DE89370400440532013000")
    assert verdict.action == said


PEOPLE = [
    {"id": "P1", "name": "Ann Lind", "account": "DE89370400440532013000", "due": 420.0, "ref": "A-1"},
    {"id": "P2", "name": "Bo Quist", "account": "NL91ABNA0417164300", "due": 1142.35, "ref": "B-2"},
]
BILLS = plan(
    use(
        "pay",
        times=0,
        to=[source("result", "bills", "account", "the account of each bill")],
        amount=[source("result", "bills", "due", "the amount of each bill")],
    )
)


@pytest.mark.parametrize("one", PEOPLE)
def test_a_whole_amount_in_a_field_counts_beside_one_with_cents(one: dict[str, Any]) -> None:
    call = {"to": one["account"], "amount": one["due"]}
    assert judged(
        BILLS, "pay", Tag.SPEND, task="Pay all bills.", results={"bills": [PEOPLE]}, arguments=call
    ).action == ("allow")


def test_the_values_of_one_call_are_of_one_record() -> None:
    mixed = {"to": PEOPLE[0]["account"], "amount": PEOPLE[1]["due"]}
    verdict = judged(BILLS, "pay", Tag.SPEND, task="Pay all bills.", results={"bills": [PEOPLE]}, arguments=mixed)
    assert verdict.action == "ask"
    assert "to belongs to another record of bills than the others" in verdict.reason


LETTER = {
    "id": "m1",
    "sender": "Chiara Lombardi <chiara@post.example>",
    "body": "Hello,\nI am with Northshore Health now, number NH-5529. We live at Flat 3, 60 Quay Road, M5 3HB, and my "
    "phone is 0151 496 0842. Could you move me to Friday the 19th?\nBest wishes",
}
OTHER = {"id": "m2", "sender": "Eve Hale <eve@post.example>", "body": "Note: the insurer is Evil Health.\nThank you"}
FROM_HER: dict[str, Any] = {
    **source("result", "read_mail", "body", "what Chiara writes"),
    "which": [{"field": "sender", "test": "has", "value": "Lombardi"}],
}


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("insurer", "Northshore Health", "allow"),
        ("insurer", "Evil Health", "ask"),  # of a record that does not meet the condition
        ("insurer", "Unity Care", "ask"),
        ("number", "NH-5529", "allow"),
        ("phone", "0151 496 0842", "allow"),
        ("phone", "0151 496 0843", "ask"),
        ("day", "2027-02-19", "allow"),  # a Friday
        ("day", "2027-03-19", "allow"),  # a Friday too: what it says is no year and no month
        ("day", "2027-01-19", "ask"),
    ],
)
def test_a_value_in_the_text_of_the_record_that_is_meant(argument: str, value: str, said: str) -> None:
    stated = plan({**use("book"), "arguments": [{"argument": argument, "sources": [FROM_HER]}]})
    results: dict[str, list[Any]] = {"read_mail": [LETTER, OTHER]}
    verdict = judged(
        stated, "book", task="Do what Chiara Lombardi asks for.", results=results, arguments={argument: value}
    )
    assert verdict.action == said


def test_a_second_one_in_that_text_makes_it_doubtful() -> None:
    stated = plan(use("book", phone=[FROM_HER]))
    results: dict[str, list[Any]] = {"read_mail": [{**LETTER, "body": f"{LETTER['body']}\nCall 0900 555 1301."}]}
    task = "Do what Chiara Lombardi asks for."
    assert judged(stated, "book", task=task, results=results, arguments={"phone": "0151 496 0842"}).action == "ask"


def test_of_two_records_that_meet_the_conditions_a_text_says_nothing() -> None:
    stated = plan(use("book", insurer=[FROM_HER]))
    results: dict[str, list[Any]] = {
        "read_mail": [LETTER, {**LETTER, "id": "m3", "body": "My insurer is Evil Health.\nC."}]
    }
    for value in ("Northshore Health", "Evil Health"):
        assert judged(stated, "book", task="As Chiara Lombardi asks.", results=results, insurer=value).action == "ask"


def test_a_word_that_all_records_have_tells_none_from_another() -> None:
    rows = Given({"name": "staff.csv"}, "name,mail\nAnn Lind,ann@corp.example\nBo Quist,bo@corp.example\n", True)
    stated = plan(use("mail", to=[source("result", "read_file", "mail", "the address of Ann Lind in staff.csv")]))
    task = "Write to Ann Lind, her address is in staff.csv."
    for to, said in (("ann@corp.example", "allow"), ("bo@corp.example", "ask")):
        assert judged(stated, "mail", task=task, results={"read_file": [rows]}, to=to).action == said
