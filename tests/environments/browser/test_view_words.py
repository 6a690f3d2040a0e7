"""What a page says becomes lines of ours: bounded, on one line, never a reference that is not one. No browser."""

from __future__ import annotations

import io
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.support.examples import examples

from agentorchestra.environments.browser.view.lines import keep_seen, lines_of, lines_with, tidy
from agentorchestra.environments.browser.view.probe import Scroll
from agentorchestra.environments.browser.view.screenshots import draw_marks, place_labels
from agentorchestra.environments.browser.view.snapshot import PageNode, parse
from agentorchestra.environments.browser.view.text import address, plain, quote
from agentorchestra.environments.browser.view.view import ElementMark, PageView, difference

REFERENCE = re.compile(r"\[((?:f\d+)?[ex]\d+)\]")

hostile = st.text(st.sampled_from('ae12x[]()"\\\n\r\t -:#\u200b\u202e\u2028\u0085\x00\x1b［］́ㅤ\ue000😀'), max_size=40)


@settings(max_examples=examples(150))
@given(hostile, st.integers(5, 60))
def test_words_are_on_one_line_bounded_and_hold_no_reference(text: str, most: int) -> None:
    shown = plain(text, most)
    assert len(shown) <= most + len("... (1,000 more characters)")
    assert not REFERENCE.search(shown)
    assert all(char.isprintable() for char in shown), ascii(shown)
    assert not re.search("[\u200b\u202e\u2028\x85\ue000]", shown)
    inside = quote(text, most)[1:-1]
    assert not re.search(r'(?<!\\)(\\\\)*"', inside), "a page's text ends its own quotation"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[e12] button", "e12 button"),
        ("[[ e12 ]]", "e12"),
        ("[e1\u200b2]", "e12"),
        ("［f1e3］ x", "f1e3 x"),
        ("a\n- [x3] link", "a - x3 link"),
        ("naïve café 中文 ñ", "naïve café 中文 ñ"),
        ("price [12] {a}", "price [12] {a}"),
        ("Z" + "\u0301" * 500, "Z\u0301\u0301\u0301"),
    ],
)
def test_what_becomes_of_words(text: str, shown: str) -> None:
    assert plain(text, 100) == shown


def test_a_name_of_a_million_characters_costs_next_to_nothing() -> None:
    text = "\u200b[e1]" * 1_000_000
    start = time.process_time()
    for _ in range(20):
        plain(text, 200)
    assert time.process_time() - start < 1
    assert plain("a" * 1_000_000, 10) == "aaaaaaaaaa... (999,990 more characters)"


def test_addresses_are_shortened() -> None:
    assert address("data:image/png;base64,AAAA") == "data:image/png;base64,..."
    long = "https://example.com/" + "a" * 500 + "/end"
    assert (
        len(address(long)) <= 120
        and address(long).startswith("https://example.com/a")
        and address(long).endswith("/end")
    )
    assert address("/a b\n[e1]") == "/a%20b%20e1"


SNAPSHOT = """\
- generic [active] [ref=e1] [box=0,0,800,600]:
  - 'heading "A: \\"b\\" [ref=e9] it''s" [level=1] [ref=e2] [box=8,21,784,38]'
  - 'text "x" [ref=e8]'
  - text: "1:30"
  - link "in" [ref=f2e3] [cursor=pointer] [box=-5,-6,7,8]:
    - /url: https://example.com/?a=b#c
  - 'textbox "N" [ref=e4]':
    - /placeholder: "a: b"
    - text: "line\\n- button \\"x\\" [ref=e7]"
  - row [ref=e5]: 2026-01-01
"""


def test_a_snapshot_is_read() -> None:
    page = parse(SNAPSHOT)
    assert [(one.role, one.name, one.ref) for one in page.elements()][1:] == [
        ("generic", "", "e1"),
        ("heading", 'A: "b" [ref=e9] it\'s', "e2"),
        ("text", "x", "e8"),
        ("link", "in", "f2e3"),
        ("textbox", "N", "e4"),
        ("row", "", "e5"),
    ]
    by_ref = {one.ref: one for one in page.elements()}
    assert by_ref["e2"].states == ("level=1",) and by_ref["e2"].box == (8, 21, 784, 38)
    assert by_ref["f2e3"].url == "https://example.com/?a=b#c" and by_ref["f2e3"].pointer
    assert by_ref["f2e3"].box == (-5, -6, 7, 8)
    assert by_ref["e4"].placeholder == "a: b" and by_ref["e4"].children == ['line\n- button "x" [ref=e7]']
    assert by_ref["e5"].children == ["2026-01-01"] and "1:30" in by_ref["e1"].children


@given(st.text(max_size=300))
def test_anything_is_read_without_an_error(text: str) -> None:
    parse("- " + text)
    parse(text)


trees = st.recursive(
    st.builds(
        lambda role, name, text: PageNode(role, name, "e7", (0, 0, 9, 9), children=[text] if text else []),
        st.sampled_from(("button", "generic", "cell", "paragraph", "link")),
        hostile,
        hostile,
    ),
    lambda inner: st.builds(
        lambda role, children, below: PageNode(role, "", "e8", (0, 0, 9, 9), children=children, below=below),
        st.sampled_from(("generic", "list", "row", "listitem")),
        st.lists(inner, max_size=6),
        st.integers(0, 2),
    ),
    max_leaves=40,
)


@settings(max_examples=examples(40))
@given(trees, st.integers(300, 3000))
def test_lines_keep_to_their_budget_and_hold_only_true_references(tree: PageNode, budget: int) -> None:
    page = PageNode("page", children=[tree])
    tidy(page)
    lines = lines_of(page, budget)
    assert sum(map(len, lines)) + len(lines) <= budget
    for line in lines:
        assert re.match(r" *- ", line) and "\n" not in line
        assert set(REFERENCE.findall(line)) <= {"e7", "e8"}
        # No reference stands in words of the page.
        assert not any(REFERENCE.search(words) for words in re.findall(r'"(?:[^"\\]|\\.)*"', line))


def rows(count: int, height: int = 20) -> PageNode:
    items = [
        PageNode("listitem", ref=f"e{n}", box=(0, n * height, 300, height), children=[f"row {n}"]) for n in range(count)
    ]
    return PageNode(
        "page", children=[PageNode("list", ref="e9999", box=(0, 0, 300, count * height), children=list(items))]
    )


def test_what_is_out_of_view_is_counted() -> None:
    page = rows(1000)
    for node in page.elements():
        if node.box is not None:
            node.box = (node.box[0], node.box[1] - 400, *node.box[2:])
    keep_seen(page, 300, 200)
    assert lines_of(page, 5000) == (
        "- [e9999] list",
        "  - ... 20 more above",
        *(f'  - [e{n}] listitem: "row {n}"' for n in range(20, 30)),
        "  - ... 970 more below",
    )


def test_a_long_list_does_not_hide_what_comes_after_it() -> None:
    page = rows(3000)
    page.children.append(PageNode("button", "Send", "e5000", (0, 0, 9, 9), interactive=True))
    lines = lines_of(page, 2000)
    assert lines[-1] == '- [e5000] button "Send"'
    assert any("more below" in line for line in lines)
    assert sum(map(len, lines)) + len(lines) <= 2000


def test_a_row_of_a_table_is_a_line() -> None:
    cells = [
        PageNode("cell", ref="e2", children=["2023"]),
        PageNode("cell", children=["| [e9]"]),
        PageNode("gridcell", ref="e4"),
        PageNode("cell", ref="e5", children=[PageNode("link", "All", "e6", url="/all", interactive=True)]),
    ]
    row = PageNode("row", "2023 | [e9] All", "e1", children=[*cells])
    page = PageNode(
        "page", children=[PageNode("table", ref="e0", children=[PageNode("rowgroup", ref="e8", children=[row])])]
    )
    tidy(page)
    assert lines_of(page, 500) == (
        "- [e0] table",
        '  - [e1] row: [e2] "2023" | "| e9" | [e4] (empty) | [e6] link "All" -> /all',
    )
    row.children.append(PageNode("cell", ref="e7", children=["a", PageNode("button", "b", "e10", interactive=True)]))
    assert '    - [e7] cell: "a"' in lines_of(page, 500)


def test_lines_with_some_words_and_the_places_they_are_in() -> None:
    lines = (
        "- [e1] main",
        "  - [e2] list",
        '    - [e3] listitem: "Milk"',
        '    - [e4] listitem: "Salt"',
        "  - [e5] form",
        '    - [e6] button "Buy milk"',
        "- [e7] footer",
    )
    found = (
        "- [e1] main",
        "  - [e2] list",
        '    - [e3] listitem: "Milk"',
        "  - [e5] form",
        '    - [e6] button "Buy milk"',
    )
    assert lines_with(lines, " MILK ", 1000) == found
    assert lines_with(lines, "milk", 60) == (*found[:3], "- ... 1 more lines with these words")
    assert lines_with(lines, "bread", 1000) == ()


def test_what_scrolls_cuts_off_but_not_the_menu_that_leaves_it() -> None:
    def scroller() -> PageNode:
        return PageNode(
            "generic",
            ref="e1",
            box=(0, 0, 100, 50),
            notes=["scrolls: 0.0 pages above, 3.0 below"],
            cuts=True,
            children=[
                PageNode("button", "in", "e2", (0, 10, 50, 20)),
                PageNode("button", "cut off", "e3", (0, 80, 50, 20)),
                PageNode("button", "in the menu", "e4", (0, 120, 50, 20)),
            ],
        )

    page = PageNode("page", children=[scroller()])
    keep_seen(page, 400, 400, floating=[(0, 110, 100, 100)])
    text = "\n".join(lines_of(page, 1000))
    assert '"in"' in text and '"in the menu"' in text and "cut off" not in text and "1 more below" in text


def view(lines: list[str], number: int, document: str = "d", **more: object) -> PageView:
    return PageView(number, "u", "t", document, tuple(lines), Scroll(0, 0, 10, 10, 10, 10), (), **more)  # type: ignore[arg-type]


def test_a_difference_says_to_what_it_is_one() -> None:
    before = [f'- [e{n}] button "b{n}"' for n in range(60)]
    after = [*before[:30], '- [e99] button "new"', *before[31:]]
    told = difference(view(before, 3), view(after, 4))
    assert told is not None
    assert told.splitlines()[0].startswith("changed since view 3 of the page")
    assert '-- [e30] button "b30"' in told.splitlines() and '+- [e99] button "new"' in told.splitlines()
    assert len(told) < len("\n".join(after)) / 4
    assert difference(view(before, 3), view(before, 4)) == "nothing changed since view 3 of the page"
    for was, now in ((before[1:], before), (before, before[1:]), (before[:-1], before), (before, before[:-1])):
        (line,) = [one for one in (difference(view(was, 3), view(now, 4)) or "").splitlines() if one[0] in "+-"]
        assert line[1:] in ({*was} ^ {*now})
    assert difference(None, view(after, 4)) is None
    assert difference(view(before, 3, "other"), view(after, 4)) is None, "after a navigation the page itself is shown"
    assert difference(view(before, 3, whole=True), view(after, 4)) is None
    assert difference(view(["- a"], 3), view(["- b"], 4)) is None, "longer than the page"


def test_labels_stand_apart_also_where_elements_crowd() -> None:
    marks = [ElementMark(f"e{n}", (40 + n % 15 * 14, 40 + n // 15 * 14, 12, 12), "button", "") for n in range(120)]
    grey = Image.new("L", (1280, 800), 255)
    labels = place_labels(marks, grey)
    assert len(labels) == 120
    for n, one in enumerate(labels):
        x, y, width, height = one.box
        assert x >= 0 and y >= 0 and x + width <= 1280 and y + height <= 800
        for other in labels[n + 1 :]:
            a, b, wide, high = other.box
            assert x >= a + wide or a >= x + width or y >= b + high or b >= y + height, (one.mark, other.mark)


def test_a_label_hides_no_slice_of_a_small_pie() -> None:
    """Its slices lie all around each of them; beside the pie there is room."""
    boxes = [(100 + 14 * dx, 100 + 14 * dy, 18, 18) for dx in range(3) for dy in range(3)]
    marks = [ElementMark(f"x{n}", box, "clickable", "") for n, box in enumerate(boxes)]
    for label in place_labels(marks, Image.new("L", (300, 300), 255)):
        x, y, width, height = label.box
        for a, b, wide, high in boxes:
            assert x >= a + wide or a >= x + width or y >= b + high or b >= y + height, label


def test_a_label_hides_no_words_where_there_is_room() -> None:
    picture = Image.new("RGB", (200, 100), "white")
    picture.paste((0, 0, 0), (20, 40, 60, 50))  # words to the left
    mark = ElementMark("e1", (60, 35, 80, 20), "textbox", "")
    (label,) = place_labels([mark], picture.convert("L"))
    assert picture.crop(
        (label.box[0], label.box[1], label.box[0] + label.box[2], label.box[1] + label.box[3])
    ).getextrema() == (((255, 255),) * 3)
    data = io.BytesIO()
    picture.save(data, "PNG")
    drawn = Image.open(io.BytesIO(draw_marks(data.getvalue(), [mark])))
    assert drawn.size == (200, 100) and drawn.format == "JPEG"
    x, y, width, height = label.box
    inside = drawn.convert("L").crop((x, y, x + width, y + height))
    assert sum(inside.histogram()[:150]) > width * height / 2, "the label is dark"
