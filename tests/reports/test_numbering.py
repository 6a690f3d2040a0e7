"""References of a whole report: one number for each source in whatever spelling, and texts numbered by code."""

from __future__ import annotations

import random
import re

import pytest

from agentorchestra.environments.report.addresses import escape, key_of
from agentorchestra.environments.report.items import ReportItem
from agentorchestra.environments.report.parser import read_text
from agentorchestra.environments.report.references import assemble, collect, finish

SPELLINGS: dict[str, list[str]] = {
    "https://example.org/a/b": [
        "https://EXAMPLE.org:443/a/b/",
        "HTTPS://example.org/x/../a/b?utm_source=m&gclid=1#top",
    ],
    "http://example.com": ["http://Example.com:80/"],
    "https://example.net/caf%C3%A9": ["https://example.net/café", "https://example.net/caf%c3%a9#menu"],
    "https://example.org/wiki/Oyster_(food)": ["https://example.org/wiki/Oyster_%28food%29"],
    "https://example.org/x?a=1&b=2": ["https://example.org/x?b=2&a=1&fbclid=7"],
    "file:///home/me/my%20files/lease.txt": [
        "/home/me/my files/lease.txt",
        "file://localhost/home/me/my%20files/lease.txt",
    ],
    "https://doi.org/10.1000/xyz.7": ["Miller, Oysters, doi:10.1000/XYZ.7.", "http://dx.doi.org/10.1000/xyz.7"],
    "https://arxiv.org/abs/2506.12508": ["Teams of agents. arXiv:2506.12508"],
    # What looks alike and is something else.
    "https://example.org/a/B": [],
    "https://example.org/x?a=1&b=3": [],
    "https://www.example.org/a/b": [],
    "https://example.org:8443/a/b": [],
    "https://doi.org/10.1000/xyz.70": [],
    "https://arxiv.org/abs/2506.12509": [],
    "file:///home/me/my%20files/lease.txt.bak": [],
    "words:miller the oyster 1921": [],
    "words:smith on pearls": [],
    "words:a map of the bay": [],
}
WORDS = {
    "words:miller the oyster 1921": "Miller: The Oyster, 1921",
    "words:smith on pearls": "Smith, On Pearls",
    "words:a map of the bay": "A map of the bay.",
}


def written() -> list[tuple[str, str]]:
    """Every spelling, with the source that it is one of."""
    return [(key, spelled) for key, others in SPELLINGS.items() for spelled in (WORDS.get(key, key), *others)]


def items(order: list[tuple[str, str]], per_item: int = 7) -> list[ReportItem]:
    """Texts that cite them under numbers of their own; each fact names its source."""
    made = []
    for at in range(0, len(order), per_item):
        part = order[at : at + per_item]
        facts = [f"Fact {at + n} [{n}]." for n in range(1, len(part) + 1)]
        listed = [f"{n}. {spelled}" for n, (_, spelled) in enumerate(part, start=1)]
        read = read_text("\n".join([*facts, "", "## References", "", *listed]))
        assert not read.struck
        made.append(ReportItem(id=f"{at}", title=f"Part {at}", content=read.content, references=read.references))
    return made


@pytest.mark.parametrize("seed", range(5))
def test_of_thirty_references_twelve_are_spellings_of_others(seed: int) -> None:
    order = written()
    assert (len(order), len(SPELLINGS)) == (30, 18)
    random.Random(seed).shuffle(order)
    collected = collect(items(order))
    assert [one.number for one in collected.references] == [*range(1, 19)]
    assert {key_of(one.url, one.description) for one in collected.references} == set(SPELLINGS)

    done = finish(assemble(collected, "Oysters"), collected.references)
    assert not done.struck and not done.left_out
    address_of = {one.number: one.address for one in done.references}
    cited = re.findall(r"^Fact (\d+) \[(\d+)\]\(([^()]+)\)\.$", done.text, re.MULTILINE)
    assert len(cited) == 30
    for fact, number, address in cited:
        key = order[int(fact) - 1][0]
        assert address == ("#references" if key in WORDS else escape(key)), fact
        assert address_of[int(number)] == address
        assert f"\n{number}. " in done.text
    # By first use, without a gap.
    assert list(dict.fromkeys(int(number) for _, number, _ in cited)) == [*range(1, 19)]
    listed = done.text.partition("## References")[2].strip().splitlines()
    assert [line.partition(".")[0] for line in listed] == [str(n) for n in range(1, 19)]


def two_items() -> list[ReportItem]:
    one = read_text("Oysters sleep [1](https://e.org/sleep). They eat [2](https://e.org/food).")
    two = read_text("Food is plankton [1](https://E.org/food/). A map [2].\n\n## References\n\n2. A map of the bay")
    return [
        ReportItem(id="1", title="One", content=one.content, references=one.references),
        ReportItem(id="2", title="Two", content=two.content, references=two.references),
    ]


def test_a_text_is_numbered_by_first_use_and_what_it_does_not_cite_is_said() -> None:
    collected = collect(two_items())
    done = finish("Plankton [2]. A map [3][3].", collected.references)
    assert done.text == (
        "Plankton [1](https://e.org/food). A map [2](#references).\n\n## References\n\n"
        "1. [https://e.org/food](https://e.org/food)\n2. A map of the bay\n3. [https://e.org/sleep](https://e.org/sleep)\n"
    )
    assert [one.url for one in done.left_out] == ["https://e.org/sleep"]
    only = finish("Plankton [2].", collected.references, every=False)
    assert only.text.count("\n1. ") == 1 and "\n2. " not in only.text and len(only.left_out) == 2


def test_marks_and_links_that_name_no_source_are_struck_out() -> None:
    collected = collect(two_items())
    text = (
        "One [9], two [1, 8], three [4](https://evil.org/x), four [a page](https://evil.org/y), "
        "five [7](https://E.org:443/food#x), six ![p](https://evil.org/z.png).\n\n## References\n\n1. https://evil.org/w"
    )
    done = finish(text, collected.references)
    assert done.text.startswith(
        "One, two [1](https://e.org/sleep), three, four a page, five [2](https://e.org/food), six p.\n"
    )
    assert "evil.org" not in done.text
    assert done.struck == (
        "[9]", "[8]", "[4](https://evil.org/x)", "https://evil.org/y", "https://evil.org/z.png",
    )  # fmt: skip


def test_code_in_a_text_is_left_as_it_is() -> None:
    collected = collect(two_items())
    text = "See [1].\n\n```python\nprint(a[1])  # [9] https://e.org/food\n```\n"
    assert "```python\nprint(a[1])  # [9] https://e.org/food\n```" in finish(text, collected.references).text


@pytest.mark.sampled(2)
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text", ["[" * 200_000, "[1]" * 60_000, "[1](http://a.b) " * 12_000, "[x](#references)" * 12_000]
)
def test_hostile_texts_take_no_time(text: str) -> None:
    assert finish(text, collect(two_items()).references).text
