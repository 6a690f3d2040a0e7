"""When a value is the user's: by meaning where nobody could mean something else, and never by looking alike."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra.trust.words import Words

SAME = [
    ("Pay 1,000.50 EUR", 1000.5),
    ("Pay 1.000,50 Euro", 1000.5),
    ("Zahle 1 000,50 €", "1000.50"),
    ("pay 1'000.50", 1000.5),
    ("Pay €1,000", 1000),
    ("Pay 5000", 5000.0),
    ("1,00,000 rupees", 100000),
    ("5 million dollars", 5000000),
    ("$ 12", "12 USD"),
    ("500万元", 5000000),
    ("two tickets", 2),
    ("5% off", 5),
    ("invoice #4711", 4711),
    ("amount=100", 100),
    ("Send 100.", 100),
    ("-5 degrees", -5),
    ("Book 3 March 2027", "2027-03-03"),
    ("am 03.03.2027 um 14:30 Uhr", "2027-03-03T14:30"),
    ("12/31/2026 at 2:30 pm", "2026-12-31 14:30"),
    ("à 14h30", "14:30"),
    ("um 15 Uhr", "15:00"),
    ("2027年3月3日", "2027-03-03"),
    ("write to  Bob@B.example, please", "bob@b.example"),
    ("mail bob@x.org.", "bob@x.org"),
    ("to:bob@x.org", "bob@x.org"),
    ("Bob (bob@x.org)", "Bob <bob@x.org>"),
    ("to ann@a.example and bob@b.example", "ann@a.example, bob@b.example"),
    ("Bob's address", "Bob"),
    ("écris à l'équipe", "équipe"),
    ("请给张伟发邮件，地址wei@example.cn。", "wei@example.cn"),
    ("请给张伟发邮件", "张伟"),
    ("IBAN DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
    ("Subject: “Hello there”", "Hello there"),
]

OTHER = [
    ("Pay 100", 10),
    ("Pay 1,000.50", 50),
    ("Pay 1,000.50", 1),
    ("1.000 Euro", 1.0),
    ("Pay 102", "10²"),
    ("100k", 100),
    ("500万元", 500),
    ("5 million", 5),
    ("room 1 200 people", 1200),
    ("-5", 5),
    ("5", -5),
    ("14:30", 30),
    ("v1.2.3", 1.2),
    ("192.168.1.10", 10),
    ("007", 7),
    ("10-20", 20),
    ("€1,000", "1000 USD"),
    ("account 12345678 90 euros", "1234567890"),
    ("03/04/2026", "2026-04-03"),
    ("2026-02-30", "2026-03-02"),
    ("at 14:30", "2:30"),
    ("corp.example.org", "corp.example"),
    ("ann.smith@x.org", "smith@x.org"),
    ("o'brien@x.org", "brien@x.org"),
    ("x@bob.org", "bob.org"),
    ("https://u:pass@host.org", "pass@host.org"),
    ("ann@x.org", "Eve <ann@x.org>"),
    ("ann@x.org", "ann@x.org, eve@x.org"),
    ("bob@x.org", "bob@x.orɡ"),
    ("bob@x.org", "b\u200bob@x.org"),
    ("bob@x.org", "ｂｏｂ@x.org"),
    ("bob", "bob\x1d"),
    ("straße.de", "strasse.de"),
    ("/tmp/A", "/tmp/a"),
    ("Bob", "B"),
    ("Ma-Bob", "Bob"),
    ("张伟明", "张伟"),
    ("wait...", ".."),
    ("DE89 3704 0044 0532 0130 00", "DE89370400440532013001"),
    ("", 0),
    ("anything", ""),
]


@pytest.mark.parametrize(("said", "value"), SAME)
def test_what_means_the_same_is_the_users(said: str, value: str | int | float) -> None:
    assert Words((said,)).hold(value)


@pytest.mark.parametrize(("said", "value"), OTHER)
def test_what_only_looks_like_it_is_not(said: str, value: str | int | float) -> None:
    assert not Words((said,)).hold(value)


words = st.text(alphabet=string.ascii_lowercase + "äß", min_size=2, max_size=8)


@given(st.lists(words, min_size=1, max_size=8), words)
def test_a_word_is_the_users_if_and_only_if_it_is_one_of_his(said: list[str], value: str) -> None:
    assert Words((" ".join(said),)).hold(value) == (value in said)


@given(st.lists(words, min_size=1, max_size=6), st.integers(0, 5), st.sampled_from(["a", "x", "-y", "_z", "1", ".org"]))
def test_a_longer_word_is_another(said: list[str], at: int, more: str) -> None:
    value = said[at % len(said)]
    text = " ".join(f"{one}{more}" for one in said)
    assert not Words((text,)).hold(value) or any(f"{one}{more}" == value for one in said)


def written(number: int, decimals: int, style: str) -> str:
    """A number as people in different places write it."""
    grouped = f"{number:,}"
    cents = f"{decimals:02d}"
    return {
        "plain": f"{number}.{cents}",
        "english": f"{grouped}.{cents}",
        "german": f"{grouped.replace(',', '.')},{cents}",
        "swiss": f"{grouped.replace(',', chr(39))}.{cents}",
        "french": f"{grouped.replace(',', chr(0x202F))},{cents} €",
    }[style]


@given(
    st.integers(1, 10**9),
    st.integers(0, 99),
    st.sampled_from(["plain", "english", "german", "swiss", "french"]),
    st.integers(1, 10**9),
    st.integers(0, 99),
)
def test_a_number_is_the_users_if_and_only_if_it_is_equal(
    number: int, decimals: int, style: str, other: int, others: int
) -> None:
    words = Words((f"Pay {written(number, decimals, style)} to Bob",))
    assert words.hold(float(f"{number}.{decimals:02d}"))
    assert words.hold(float(f"{other}.{others:02d}")) == ((number, decimals) == (other, others))


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_text_is_answered(said: str, value: str) -> None:
    held = Words((said,)).hold(value)
    if held and value.strip().isascii() and value.strip().isalpha():
        assert value.strip().lower() in said.lower() or value.strip().upper() in ("EUR", "USD", "GBP", "JPY", "CNY")


def test_long_texts_are_answered_in_time() -> None:
    said = "1,000 a.b " * 20_000 + "x" * 50_000 + " (" * 20_000
    words = Words((said,))
    assert not words.hold("y" * 100_000)
    assert not words.hold("a.b" * 30)
    assert not words.hold(10**400)
    assert not Words(("x=x" * 300_000,)).hold("x")
    assert not Words(("111 222 " * 20_000,)).hold(111222)


ADDRESS = "ann.smith+news@mail.corp-one.example"


@given(st.integers(0, len(ADDRESS)), st.integers(0, len(ADDRESS)))
def test_no_part_of_an_address_is_the_address(one: int, other: int) -> None:
    part = ADDRESS[min(one, other) : max(one, other)]
    assert Words((f"Write to {ADDRESS}, please.",)).hold(part) == (part == ADDRESS)


@given(st.integers(0, len(ADDRESS)), st.characters(exclude_categories=["Cs"]), st.booleans())
def test_a_changed_address_is_another(at: int, char: str, replace: bool) -> None:
    changed = ADDRESS[:at] + char + ADDRESS[at + replace :]
    same = changed.strip(" \t\r\n.,;:!?\"'()[]{}<>«»„“”‘’‚。，、；：？！「」『』（）《》").lower() == ADDRESS
    inside = ADDRESS not in changed.lower()
    held = Words((f"Write to {ADDRESS}, please.",)).hold(changed)
    assert held == same or not inside, changed
    if held:
        assert ADDRESS in changed.lower()
