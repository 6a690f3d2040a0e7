"""What is seen of pages, in a real Chromium."""

from __future__ import annotations

import io
import random
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from PIL import Image, ImageChops
from playwright.async_api import TimeoutError as PlaywrightTimeout
from tests.environments.browser.looking import Eyes, eyes
from tests.support.again import real

from agentorchestra.environments.browser.scripts import script
from agentorchestra.environments.browser.view.references import locate
from agentorchestra.environments.browser.view.screenshots import clear_screenshot, marked_screenshot
from agentorchestra.environments.browser.view.snapshot import PageNode, parse
from agentorchestra.environments.browser.view.view import difference

pytestmark = pytest.mark.asyncio(loop_scope="module")

ICON = "style='display:inline-block;width:20px;height:20px;background:#c00'"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
@real
async def eye() -> AsyncIterator[Eyes]:
    async with eyes() as one:
        yield one


# -- what has no name and no text --------------------------------------------------------------------------------------


@pytest.mark.long
async def test_icons_without_words_have_references_that_stay_with_them(eye: Eyes) -> None:
    text = await eye.show(
        f"""<ul><li>Milk <span id=one class=trash {ICON}></span></li><li>Eggs <i {ICON} onclick="said('two')"></i>
        </li><li>Salt <b {ICON} id=three></b></li></ul><svg id=four width=20 height=20><circle r=9 /></svg>
        <div id=five tabindex=0 {ICON}></div>
        <script>const said = what => document.title += what + '+';
        one.addEventListener('click', () => said('one')); three.onmousedown = () => said('three');
        four.addEventListener('pointerdown', () => said('four')); five.addEventListener('click', () => said('five'))
        </script>"""
    )
    assert len(re.findall(r"\[x\d+\] clickable", text)) >= 4, text
    milk = re.search(r'"Milk"\n +- \[(x\d+)\] clickable \(span "one", class "trash"\)', text)
    assert milk is not None, text  # it stands in the item it belongs to
    eggs = re.search(r'"Eggs"\n +- \[(x\d+)\]', text)
    assert eggs is not None, text
    for ref in (milk[1], eggs[1], eye.ref(r'clickable \(b "three"'), eye.ref(r'clickable \(svg "four"')):
        found = await locate(eye.page, ref)
        assert found is not None
        await found.click()
    assert await eye.page.title() == "one+two+three+four+"
    # Another look, and a list that changed: the same references for the same elements.
    await eye.page.evaluate("document.querySelector('li').after(document.createElement('hr'))")
    again = await eye.see()
    assert eggs[1] in again and f'"Eggs"\n    - [{eggs[1]}]' in again
    await eye.page.evaluate("one.remove()")
    assert await locate(eye.page, milk[1]) is None
    assert await locate(eye.page, "x99999") is None and await locate(eye.page, "e99999") is None
    assert await locate(eye.page, "f77e1") is None and await locate(eye.page, "button") is None


@pytest.mark.long
async def test_a_list_of_choices_made_of_plain_elements(eye: Eyes) -> None:
    await eye.show(
        """<div style="overflow:hidden;height:30px;position:static"><div id=open style="width:200px">Colour</div>
        <div id=menu hidden style="position:absolute;top:60px"><div>Red</div><div>Blue</div></div>
        <p style="height:200px">cut off</p></div><p id=out></p>
        <script>open_ = document.getElementById('open'); open_.addEventListener('click', () => menu.hidden = false);
        for (const one of menu.children) one.onmouseup = () => out.textContent = 'chose ' + one.textContent
        </script>"""
    )
    before = eye.view
    assert before is not None and "Blue" not in before.text and "cut off" not in before.text
    opener = re.search(r'\[(\w+)\][^\n]*clickable[^\n]*"Colour"', before.text)
    assert opener is not None, before.text
    found = await locate(eye.page, opener[1])
    assert found is not None
    await found.click()
    text = await eye.see()
    assert "Red" in text and "Blue" in text, text  # though the place it is written in cuts it off
    choice = re.search(r'\[(\w+)\][^\n]*"Blue"', text)
    assert choice is not None and "clickable" in choice[0]
    changed = difference(before, eye.view)  # type: ignore[arg-type]
    assert changed is None or "Blue" in changed
    element = await locate(eye.page, choice[1])
    assert element is not None
    await element.click()
    assert "chose Blue" in await eye.see()


async def test_links_that_lead_nowhere_but_listen(eye: Eyes) -> None:
    text = await eye.show("<p>Call <a id=a>555-0199</a> or <a>nobody</a></p><script>a.onclick = () => 0</script>")
    assert re.search(r'\[\w+\] (clickable )?"555-0199"( \(clickable\))?|\(clickable\): "555-0199"', text), text
    assert text.count("clickable") == 1


async def test_what_can_be_used_says_which_it_is(eye: Eyes) -> None:
    items = "".join(f"<li><button>b{number}</button></li>" for number in range(40))
    text = await eye.show(
        "<details><summary>More</summary><button>In</button></details><details open><summary>Less</summary></details>"
        "<button class=icon-trash></button><button><i class='fa fa-home'></i></button><button title=Send></button>"
        "<a href=/x><svg width=9 height=9><use href='#cart'/></svg></a><input id=q>"
        "<div contenteditable>hello <b>bold</b></div><ul style='height:60px;overflow:auto'>" + items + "</ul>"
        "<div style='height:0;overflow:hidden'><button>collapsed</button></div>"
        "<div style='height:50px;width:90px;overflow:hidden;position:relative'>"
        "<button style='position:absolute;left:300px'>aside</button><button>shown</button></div>"
    )
    shown = re.sub(r"\[\w+\] ", "", text)
    for line in (
        'button "More" (collapsed)',
        'button "Less" (expanded)',
        'button (button "icon-trash")',
        'button (button "fa fa-home")',
        'button "Send"',
        'textbox (input "q")',
        'textbox "hello bold"',
        "list (scrolls: 0.0 pages above, 13.0 below, 40 items)",
        'button "shown"',
    ):
        assert line in shown, text
    for name in ("In", "collapsed", "aside"):
        assert f'"{name}"' not in shown, text


@pytest.mark.long
async def test_a_canvas_says_where_it_is(eye: Eyes) -> None:
    text = await eye.show(
        """<p style="width:2500px">wide</p><canvas id=c width=200 height=100 style="margin:30px"></canvas>
        <script>c.addEventListener('click', e => document.title = e.offsetX + ',' + e.offsetY)</script>"""
    )
    found = re.search(r"canvas .*?200x100 at (\d+),(\d+)", text)
    assert found is not None and ", 0.0 to the left, 1.5 to the right" in text, text
    await eye.page.mouse.click(int(found[1]) + 50, int(found[2]) + 25)
    assert await eye.page.title() == "50,25"


async def test_shadow_trees_open_closed_and_in_one_another(eye: Eyes) -> None:
    await eye.show(
        """<div id=host></div><div id=shut></div><script>
        const inner = host.attachShadow({mode: 'open'}); inner.innerHTML = '<p>outer</p><div id=d></div>';
        inner.getElementById('d').attachShadow({mode: 'open'}).innerHTML = '<button>Nested</button>';
        const closed = shut.attachShadow({mode: 'closed'});
        closed.innerHTML = '<button>Closed</button><input aria-label=Hidden type=password value=swordfish>';
        closed.querySelector('button').onclick = () => document.title = 'closed was clicked';
        </script>"""
    )
    assert 'button "Nested"' in eye.view.text  # type: ignore[union-attr]
    assert "swordfish" not in eye.view.text  # type: ignore[union-attr]
    closed = await eye.at('button "Closed"')
    await closed.click()
    assert await eye.page.title() == "closed was clicked"
    field = await eye.at('textbox "Hidden"')
    await field.fill("another")
    assert await field.input_value() == "another" and "another" not in await eye.see()


async def test_frames_in_frames(eye: Eyes) -> None:
    said = "<script>i.onclick=()=>top.document.title='deep'</script>"
    inner = f"<p>innermost</p><i id=i {ICON}></i><button>Deep</button>{said}"
    middle = (
        f'<p>middle</p><iframe width=300 height=150 style="border:7px solid;padding:3px" srcdoc="{inner}"></iframe>'
    )
    quoted = middle.replace("&", "&amp;").replace('"', "&quot;")
    text = await eye.show(f'<h1>outer</h1><iframe id=f width=500 height=300 srcdoc="{quoted}"></iframe>')
    assert "middle" in text and "innermost" in text
    icon = await eye.at(r'clickable \(i "i"')
    await icon.click()
    assert await eye.page.title() == "deep"
    marks = {mark.ref: mark.box for mark in eye.view.marks}  # type: ignore[union-attr]
    for start in (r'clickable \(i "i"', 'button "Deep"'):
        box = await (await eye.at(start)).bounding_box()
        assert box is not None
        # Marks are where the page shows the elements, not where their frame does.
        for seen, true in zip(marks[eye.ref(start)], (box["x"], box["y"], box["width"], box["height"]), strict=True):
            assert abs(seen - true) <= 1.5, (start, marks[eye.ref(start)], box)
    ref = eye.ref(r'clickable \(i "i"')
    await eye.page.evaluate("f.remove()")
    assert await locate(eye.page, ref) is None


# -- places, marks, menus ----------------------------------------------------------------------------------------------


def bare(text: str) -> str:
    """Return a view without its references and its first line."""
    return re.sub(r"\[\w+\] ", "", text.partition("\n")[2])


async def test_what_only_the_probe_finds_comes_where_the_document_has_it(eye: Eyes) -> None:
    items = "".join(f"<li>Item {n} <i id=plus{n}></i></li>" for n in range(3))
    boxes = "".join(
        f"<path id=s{n} d='M0 0H9V9H0Z' transform='translate({n * 20})' /><text>{n}</text>" for n in range(2)
    )
    text = await eye.show(
        f"""<style>ul {{ width:200px }} i, b {{ display:block; position:absolute; width:20px; height:20px }}
        i {{ left:300px }} b {{ left:500px; top:5px }}</style><ul>{items}</ul><svg>{boxes}</svg>
        <form><label>Photo <input type=file hidden></label><button>Send</button></form><p>before <b id=last></b></p>
        <script>for (const one of document.querySelectorAll("i, path, b")) one.onclick = () => 0</script>"""
    )
    assert bare(text) == (
        '- list\n  - listitem: "Item 0"\n    - clickable (i "plus0")\n  - listitem: "Item 1"\n'
        '    - clickable (i "plus1")\n  - listitem: "Item 2"\n    - clickable (i "plus2")\n- img\n'
        '  - clickable (path "s0")\n  - "0"\n  - clickable (path "s1")\n  - "1"\n'
        '- file "Photo" (file, invisible)\n- button "Send"\n- paragraph: "before"\n  - clickable (b "last")'
    ), text


async def test_marks_that_are_drawn_by_style_sheets_and_states_in_classes(eye: Eyes) -> None:
    text = await eye.show(
        """<style>td, #b div { width:30px; height:30px; } .x { background:red } .o::after { content:"O" }
        .fa::before { content:"\\f00c" }</style><table><tr><td class=x><td class=o><td></table>
        <div id=b><div id=c0 class="cell x"></div><div id=c1 class="cell o"></div><div id=c2 class=cell></div></div>
        <ul><li class="todo done">Milk</li><li class=todo>Eggs <i class="fa fa-check"></i></li></ul>
        <a class="tab active" href=#a>A</a><a class=tab href=#b>B</a><button><i class="fa fa-times"></i></button>
        <h2 class=left>Names</h2><h2 class=right>say nothing</h2>
        <script>for (const one of document.querySelectorAll("td, #b div")) one.onclick = () => 0</script>"""
    )
    shown = bare(text)
    for line in (
        '- row: (empty) (clickable, td "x") | "O" (clickable, class "o") | (empty) (clickable)',
        '- clickable (div "c0", class "cell x")\n',
        '- clickable "O" (class "o")\n- clickable (div "c2", class "cell")\n',
        '- listitem (class "done"): "Milk"\n',
        '- listitem: "Eggs"\n    - generic (class "fa fa-check")\n',
        'link "A" (class "active") -> #a\n- link "B" -> #b\n',
        '- button (button "fa fa-times")\n',
        '- heading "Names" (level 2)\n- heading "say nothing" (level 2)',
    ):
        assert line in shown, f"{line}\n{text}"
    before = eye.view
    await eye.page.evaluate("c2.classList.add('x')")
    await eye.see()
    told = difference(before, eye.view)  # type: ignore[arg-type]
    assert told is not None and 'class "cell x"' in told, "a mark that is set is a change"
    read = (await eye.page.evaluate(script("rendered.js"), 100_000))["html"]
    assert '<td class="o">O</td>' in read, "the text of the page has them too"


async def test_an_element_whose_hover_opens_a_menu_says_so(eye: Eyes) -> None:
    text = await eye.show(
        """<style>li ul { display:none; position:absolute } li:hover > ul { display:block } .all, .m:hover { color:red }
        @media screen { .m ~ div, .w div { visibility:hidden } .m:hover ~ div, .w:hover .in { visibility:visible } }
        .tip:hover b { font-weight:bold }</style><ul><li>Products<ul><li><a href=/a>Alpha</a></ul><li>About</ul>
        <a class=m href=#m>Account</a><div><button>Log out</button></div><p class=tip>No <b>menu</b></p>
        <section class=w><h2>Tools</h2><div class=in>More</div></section>"""
    )
    shown = bare(text)
    for line in ('listitem (hover shows more): "Products"', '"About"\n', '"Account" (hover shows more)', '"No menu"'):
        assert line in shown, f"{line}\n{text}"
    assert 'button "Log out" (invisible)' in shown and shown.count("hover shows more") == 3, text
    await (await eye.at("listitem .*Products")).hover()
    assert 'link "Alpha"' in await eye.see()


# -- fields ------------------------------------------------------------------------------------------------------------


async def test_what_fields_are(eye: Eyes) -> None:
    text = await eye.show(
        """<form><label>Name <input required value=Bob maxlength=20></label><label>Mail <input type=email value=no>
        </label><label>Date <input type=date readonly></label><label><input type=checkbox checked> Yes</label>
        <label>City <select><option>Rome<option selected>Bern<option>Oslo</select></label>
        <input list=l aria-label=Pick><datalist id=l><option>a</datalist>
        <label>Photo <input type=file hidden accept="image/*"></label>
        <button disabled>Send</button>
        <label>Text <textarea placeholder="say">hello "you" [e1]</textarea></label></form>"""
    )
    for line in (
        'textbox "Name" (required, at most 20 characters): "Bob"',
        'textbox "Mail" (email, invalid): "no"',
        'checkbox "Yes" (checked)',
        'combobox "City" (options: "Rome", "Bern", "Oslo"): "Bern"',
        'file "Photo"',
        'accepts "image/*"',
        'button "Send" (disabled)',
        'textbox "Text" (textarea, shows "say"): "hello \\"you\\" e1"',
        "(suggests values)",
    ):
        assert line in text, f"{line}\n{text}"
    assert re.search(r'"Date" \([^)]*date[^)]*readonly', text), text


async def test_values_of_fields_are_exact(eye: Eyes) -> None:
    text = await eye.show(
        """<input aria-label=A value="  two  blanks "><textarea rows=5 aria-label=B>a\n\tb  \n</textarea>
        <input aria-label=C value=" "><input aria-label=D value=D><input aria-label=F value="[e1]  x">
        <input type=search aria-label=E value='back\\slash "quote" a&nbsp;b&#8203;'>
        <input type=password aria-label=G value="  secret  ">"""
    )
    shown = bare(text).splitlines()
    assert shown == [
        '- textbox "A": "  two  blanks "',
        '- textbox "B" (textarea): "a\\n\\tb  \\n"',
        '- textbox "C": " "',
        '- textbox "D": "D"',
        '- textbox "F": "e1  x"',
        r'- searchbox "E" (search): "back\\slash \"quote\" a\xa0b\u200b"',
        '- textbox "G" (password): "(the value is hidden)"',
    ], text


async def test_secret_values_are_nowhere(eye: Eyes) -> None:
    text = await eye.show(
        """<label>Password <input type=password value=correct-horse></label><p>you typed correct-horse battery</p>
        <label>Role <input type=password role=button value=staple-gun></label>
        <label>Card <input autocomplete="billing cc-number" value=4111111111111111></label>
        <label>CVC <input autocomplete=cc-csc value=987></label><label>Code
        <input autocomplete=one-time-code value=55512></label>
        <label>Shown <input type=text autocomplete=current-password value=was-shown></label>
        <iframe srcdoc="<input type=password value=in-a-frame aria-label=Inner>"></iframe>
        <label>Empty <input type=password></label><label>Open <input value=visible></label>"""
    )
    for secret in ("correct-horse", "staple-gun", "4111111111111111", "987", "55512", "was-shown", "in-a-frame"):
        assert secret not in text and secret not in repr(eye.view), secret
    assert text.count("(the value is hidden)") == 8  # once where the page repeats it
    assert '"Open": "visible"' in text and re.search(r'"Empty" \(password\)$', text, re.MULTILINE)
    # A value that changes between the two looks.
    await eye.show(
        """<label>Password <input type=password id=p></label>
        <script>let n = 0; setInterval(() => p.value = 'ticking-' + n++, 1)</script>"""
    )
    for _ in range(5):
        assert "ticking-" not in await eye.see()
    # A page that moves its fields between the two looks: nothing fits together, and nothing is shown.
    await eye.show(
        """<div id=d style="position:relative"><label>Password <input type=password value=correct-horse></label>
        <label>Note <input value=plain-words></label></div>
        <script>let n = 0; const get = Element.prototype.getBoundingClientRect;
        setInterval(() => d.style.left = (n += 7) % 300 + 'px', 1);
        const real = document.getElementsByTagName; document.getElementsByTagName = function (name) {
          document.querySelector('input').value = 'changed-' + n; return real.call(document, name) }</script>"""
    )
    for _ in range(5):
        assert "correct-horse" not in await eye.see() and "changed-" not in await eye.see()


# -- how much ----------------------------------------------------------------------------------------------------------


def table(rows: int) -> str:
    cells = "".join(
        f"<tr><td>{n}</td><td><a href='/item/{n}'>Item {n}</a></td><td><button>Buy {n}</button></td></tr>"
        for n in range(rows)
    )
    return f"<title>table</title><h1>Stock</h1><table>{cells}</table><footer><button>The end</button></footer>"


@pytest.mark.long
async def test_a_long_table_is_cut_to_what_is_in_view(eye: Eyes) -> None:
    text = await eye.show(table(1000))
    assert "Item 5" in text and "Item 999" not in text and "The end" not in text
    assert re.search(r"\.\.\. 97\d more below", text), text[-200:]
    assert "0.0 pages above" in text and len(text) < 12_500
    first = eye.view
    await eye.page.mouse.wheel(0, 10_000)
    await eye.page.wait_for_function("scrollY > 9000")
    text = await eye.see()
    assert re.search(r"\.\.\. 3\d\d more above", text) and "more below" in text and "Item 5 " not in text
    assert difference(first, eye.view) is None  # type: ignore[arg-type]
    text = await eye.see(whole=True, budget=6000)
    assert "Stock" in text and "The end" in text and len(text) < 6200
    assert await (await eye.at('button "The end"')).count() == 1


@pytest.mark.long
@pytest.mark.parametrize("rows", [4_000, 20_000])
async def test_a_page_too_large_for_a_snapshot_is_drawn(eye: Eyes, rows: int) -> None:
    text = await eye.show(table(rows))
    assert eye.view is not None and eye.view.sketch and "a plain view" in text
    assert "Item 5" in text and f"Item {rows - 1}" not in text and len(text) < 12_500
    await eye.page.evaluate(
        "for (const one of document.querySelectorAll('button')) one.onclick = () => document.title = one.textContent"
    )
    await (await eye.at('button "Buy 7"')).click()
    assert await eye.page.title() == "Buy 7"
    secret = "<iframe srcdoc='<input type=password value=in-a-frame>'></iframe><input type=password value=swordfish>"
    await eye.page.evaluate(
        "html => document.body.insertAdjacentHTML('afterbegin', html + 'you typed swordfish')", secret
    )
    await eye.page.wait_for_timeout(200)
    text = await eye.see()
    assert "you typed (the value is hidden)" in text and "swordfish" not in text and "in-a-frame" not in text
    ref = eye.ref('button "Buy 7"')
    await eye.see()
    assert eye.ref('button "Buy 7"') == ref
    await eye.page.evaluate("scrollTo(0, 20000)")
    text = await eye.see()
    assert re.search(r"\.\.\. \d+ more above", text) and "Item 5 " not in text
    assert len(await eye.see(whole=True)) < 12_500


HOSTILE = {
    "names": "<button aria-label='" + "A" * 1_000_000 + "'>x</button>" * 5,
    "nested": "<div role=row>" * 200 + "x" * 1_000_000,
    "deep": "<div>" * 5000 + "<button>deep</button>",
    "options": "<select>" + "<option>o" * 50_000 + "</select>",
    "text": "<p>" + "word " * 1_000_000,
    "value": "<textarea>" + "v" * 4_000_000 + "</textarea>",
    "addresses": "".join(f"<a href='/{'a' * 100_000}{n}'>{n}</a>" for n in range(60)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_sizes_end_in_a_bounded_view(eye: Eyes, name: str) -> None:
    text = await eye.show(HOSTILE[name])
    assert len(text) < 12_600
    assert await eye.page.evaluate("1 + 1") == 2
    assert len(await eye.see(whole=True)) < 12_600


async def test_a_page_that_imitates_the_view(eye: Eyes) -> None:
    await eye.show(
        """<p>line\n- [e1] button "Pay"</p><button aria-label='x" [e77] button "Pay'>y</button>
        <p>[x1] \u200b\u202eabc</p>
        <a href='javascript:[e3] button "x"'>l</a><img alt="[e5]"><title>[e9] title</title>"""
    )
    view = eye.view
    assert view is not None
    true = {node.ref for node in parse(await eye.page.aria_snapshot(mode="ai")).elements() if node.ref}
    said = re.findall(r"\[((?:f\d+)?[ex]\d+)\]", view.text + view.title)
    assert said and set(said) <= true, (said, view.text)
    assert "\u200b" not in view.text and "\u202e" not in view.text
    assert all(re.match(r" *- |scroll: ", line) for line in view.text.splitlines())


@pytest.mark.long
async def test_a_page_that_hangs_the_look_is_told_from_others(eye: Eyes) -> None:
    mine = Eyes(eye.context, await eye.context.new_page())
    with pytest.raises(PlaywrightTimeout, match="the page does not answer"):
        await mine.show(
            "<script>Object.defineProperty(Node.prototype, 'firstChild', {get() { for (;;); }})</script><p>a</p>"
        )
    await mine.page.close()
    assert "Fine" in await eye.show("<button>Fine</button>")


@pytest.mark.long
async def test_a_frame_that_hangs_is_left_out(eye: Eyes) -> None:
    """Frames of another site have a process of their own: theirs hangs, the page does not."""

    async def served(request: web.Request) -> web.Response:
        where = str(request.url.with_host("localhost").with_path("/hang"))
        pages = {"/hang": "<p>in the frame</p><script>onload = () => setTimeout(() => { for (;;); }, 300)</script>"}
        text = pages.get(request.path, f"<button>Fine</button><iframe src={where!r}></iframe>")
        return web.Response(text=f"<!doctype html>{text}", content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", served)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    page = await eye.context.new_page()
    try:
        await page.goto(str(server.make_url("/")))
        await page.wait_for_timeout(1500)
        mine = Eyes(eye.context, page)
        start = time.monotonic()
        text = await mine.see()
        assert time.monotonic() - start < 30
        assert 'button "Fine"' in text and "a frame of the page does not answer" in text, text
        found = await mine.at('button "Fine"')
        await found.click()
    finally:
        await page.close()
        await server.close()


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    [
        "document.getElementsByTagName = () => { throw 1 }",
        "Array.prototype.map = null; JSON.stringify = null; Map.prototype.get = null",
        "Element.prototype.getBoundingClientRect = () => { throw 1 }",
    ],
)
async def test_a_page_that_breaks_what_looks_use_is_shown_all_the_same(eye: Eyes, broken: str) -> None:
    text = await eye.show(
        f"<button>Fine</button><input type=password value=swordfish>"
        f"<input value=plain><script>{broken}</script><p style='margin-top:2000px'>Far below</p>"
    )
    assert 'button "Fine"' in text and "Far below" not in text and "more below" in text, text
    assert "swordfish" not in text and "lets no script look into it" in text
    assert eye.view is not None and {mark.name for mark in eye.view.marks} >= {"Fine"}


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    [
        "Object.defineProperty(document, 'title', {get: () => ({slice: () => 7})})",
        "window[Symbol.for('agentorchestra.view')].heard = null",
        "window[Symbol.for('agentorchestra.view')].token = {a: [1]}",
        "Object.defineProperty(Element.prototype, 'tagName', {get: () => 'INPUT'})",
        "Element.prototype.getBoundingClientRect = () => ({x: NaN, y: 'a', width: 1e99, height: null})",
    ],
)
async def test_a_page_that_lies_is_shown_as_far_as_that_goes(eye: Eyes, broken: str) -> None:
    text = await eye.show(f"<button>Fine</button><script>{broken}</script>")
    assert len(text) < 2000 and eye.view is not None
    assert all(type(number) is int for mark in eye.view.marks for number in mark.box)


# -- the snapshot's text -----------------------------------------------------------------------------------------------


def from_yaml(items: Any, parent: PageNode) -> None:
    """What a YAML parser makes of a snapshot, as nodes: every value is a text."""
    for item in items:
        if isinstance(item, str):
            parent.children += parse(f"- {quoted_key(item)}").children
            continue
        for key, value in item.items():
            if key == "text":
                parent.children.append(value)
            elif key in ("/url", "/placeholder"):
                setattr(parent, key[1:], value)
            else:
                (node,) = parse(f"- {quoted_key(key)}").children
                assert isinstance(node, PageNode)
                parent.children.append(node)
                if isinstance(value, list):
                    from_yaml(value, node)
                else:
                    node.children.append(value)


def quoted_key(key: str) -> str:
    return "'" + key.replace("'", "''") + "'"


def seen(page: PageNode) -> list[tuple[object, ...]]:
    return [
        (
            *(one.role, one.name, one.ref, one.box, one.states, one.url, one.placeholder),
            *(child for child in one.children if isinstance(child, str)),
        )
        for one in page.elements()
    ]


async def test_lines_are_read_as_yaml_would_be(eye: Eyes) -> None:
    chance = random.Random(7)
    pieces = [
        *"'\"\\[]{}:#-!&*?|>%@`,=~ab1.\t\n",
        ": ",
        " #",
        "- ",
        "null",
        "[ref=e1]",
        "0x1F",
        "1:30",
        "é",
        "中",
        "\x01",
    ]
    texts = ["".join(chance.choices(pieces, k=chance.randint(1, 9))) for _ in range(120)]
    await eye.page.goto("about:blank")
    await eye.page.evaluate(
        """texts => { for (const text of texts) {
            const made = (tag, with_) => document.body.append(Object.assign(document.createElement(tag), with_));
            made('button', {ariaLabel: text}); made('a', {href: 'x:' + text, textContent: text});
            made('input', {placeholder: text, value: text, ariaLabel: text}); made('p', {textContent: text}) } }""",
        texts,
    )
    text = await eye.page.aria_snapshot(mode="ai", boxes=True)
    page = PageNode("page")
    from_yaml(yaml.load(text, Loader=yaml.CBaseLoader), page)
    ours = seen(parse(text))
    assert len(ours) > 400 and ours == seen(page)


# -- covered, stale, seen ----------------------------------------------------------------------------------------------


async def test_what_covers_an_element_is_said(eye: Eyes) -> None:
    text = await eye.show(
        """<button>Under</button><button style="margin-left:300px">Free</button><label>L <input type=checkbox id=c
        style="opacity:0"></label><div style="position:fixed;left:0;top:0;width:200px;height:90px;background:#fff">
        Cookies <b>[e1]</b></div>"""
    )
    assert re.search(r'button "Under" \(covered by "div Cookies e1"\)', text), text
    assert re.search(r'button "Free"$', text, re.MULTILINE)
    assert "invisible" in text


async def test_a_page_does_not_notice_that_its_listeners_are_noted(eye: Eyes) -> None:
    text = await eye.show(
        """<button id=b>Press</button><script>
        Map.prototype.get = WeakMap.prototype.get = Set.prototype.has = () => { throw 1 };
        Array.prototype[Symbol.iterator] = null;
        const heard = () => document.title = 'heard';
        b.addEventListener('click', heard); b.addEventListener('mousedown', () => 0);
        b.attachShadow; document.createElement('div').attachShadow({mode: 'closed'});
        b.title = String(b.addEventListener).includes('[native code]') && b.addEventListener.length === 2
        </script>"""
    )
    assert 'button "Press"' in text
    await (await eye.at('button "Press"')).click()
    assert await eye.page.locator("title").text_content() == "heard"
    assert await eye.page.locator("#b").get_attribute("title") == "true"


async def test_references_of_a_page_that_was_left(eye: Eyes) -> None:
    await eye.show(f"<button>Old</button><i {ICON} id=i onclick='1'></i>")
    old, mine, before = eye.ref('button "Old"'), eye.ref(r"clickable \(i"), eye.view
    await eye.show(f"<button>New</button><i {ICON} id=i onclick='1'></i>")
    assert await locate(eye.page, old) is None or old == eye.ref('button "New"')
    assert await locate(eye.page, mine) is None
    assert before is not None and difference(before, eye.view) is None  # type: ignore[arg-type]


async def test_pictures_have_the_same_references(eye: Eyes) -> None:
    await eye.show(
        """<body style="background:#fff;margin:0"><button style="position:absolute;left:300px;top:200px;width:90px;
        height:40px">Go</button><input type=password value=seen-by-nobody
        style="position:absolute;left:500px;top:400px;width:200px;height:30px;background:#fff"></body>"""
    )
    assert eye.view is not None
    clear = Image.open(io.BytesIO(await clear_screenshot(eye.page))).convert("RGB")
    assert clear.size == (1000, 700)
    assert clear.getpixel((510, 410)) == (0, 0, 0), "a field with a secret is black"
    marked = Image.open(io.BytesIO(await marked_screenshot(eye.page, eye.view))).convert("RGB")
    assert marked.size == (1000, 700)
    (box,) = (mark.box for mark in eye.view.marks if mark.name == "Go")
    assert box == (300, 200, 90, 40)
    red, _, blue = marked.crop((0, 0, 1000, 390)).split()
    coloured = ImageChops.difference(red, blue).point(lambda value: 255 if value > 60 else 0).getbbox()
    assert coloured is not None and coloured[0] >= 260 and coloured[1] >= 170, coloured
    assert coloured[2] <= 420 and coloured[3] <= 260, coloured
