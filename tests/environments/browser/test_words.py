"""What models write in arguments, and what the browser writes of what went wrong."""

from __future__ import annotations

import pytest

from agentorchestra.core.content import Source, TextBlock
from agentorchestra.core.effects import Tag
from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser.actions.arguments import host_of, point_of, same_site
from agentorchestra.environments.browser.actions.extraction import PIECE_CHARS, _pieces
from agentorchestra.environments.browser.actions.keyboard import checked_keys
from agentorchestra.environments.browser.actions.pdfs import _part, _passages
from agentorchestra.environments.browser.actions.targets import mistake
from agentorchestra.environments.browser.environment import Browser
from agentorchestra.trust.arguments import ELEMENT, INSIDE, SITE


def test_a_place_is_told_from_a_reference() -> None:
    assert point_of(" (340, 120.5) ") == (340, 120.5)
    assert point_of("-3,4") == (-3, 4)
    for text in ("e12", "f1e3", "340", "1,2,3", "", "e1,2", "http://a,1"):
        assert point_of(text) is None, text


def test_hosts_are_as_the_state_shows_them() -> None:
    assert host_of("https://Example.com/a?b") == "example.com"
    assert host_of("http://example.com:80/") == host_of("http://user:secret@example.com/") == "example.com"
    assert host_of("https://example.com:8443") == "example.com:8443"
    assert host_of("http://[::1]:8000/") == "[::1]:8000"
    assert host_of("about:blank") == host_of("data:text/html,x") == host_of("http://a:99999999/") == ""
    same_site(" Example.COM ", "https://example.com/login")
    with pytest.raises(ToolError, match=r"site is 'example.com', and this is at example.com.evil.test; .*say site="):
        same_site("example.com", "https://example.com.evil.test/")
    with pytest.raises(ToolError, match="at no host"):
        same_site("example.com", "about:blank")


def test_keys() -> None:
    good = {
        "enter": "Enter", "Esc": "Escape", "ctrl + a": "Control+a", "Control+Shift+K": "Control+Shift+K", " ": "Space",
        "shift+tab": "Shift+Tab", "cmd+Left": "Meta+ArrowLeft", "f5": "F5", "Alt+1": "Alt+1",
    }  # fmt: skip
    assert {text: checked_keys(text) for text in good} == good
    for text, said in {
        "a": "is no key",
        "hello": "is no key",
        "Shift+a": "is no key",
        "": "is no key",
        "F13": "is no key",
        "Hyper+a": "no key to hold",
        "Shift+Insert": "the clipboard is shared by all runs",
        "Control+C": "give the text with input_text",
        "Meta+Shift+v": "the clipboard is shared by all runs",
    }.items():
        with pytest.raises(ToolError, match=said):
            checked_keys(text)


def test_what_went_wrong_says_what_to_do() -> None:
    covered = 'Timeout 1500ms exceeded.\n  - <div id="b" class="c">…</div> intercepts pointer events\n'
    assert str(mistake(Exception(covered), "e3")).startswith('e3 is covered by <div id="b" class="c">…</div>; close')
    assert "is disabled; do first" in str(mistake(Exception("x\n  - element is not enabled"), "e3"))
    unknown = str(mistake(Exception("Locator.click: Something new\nCall log:\n - x"), "e3"))
    assert unknown == "e3 could not be used (Something new); look at the state again and try another way"


def test_a_page_in_pieces_keeps_every_character_and_its_lines() -> None:
    text = "\n".join(
        [f"line {number} " + "x" * (number * 37 % 3000) for number in range(1, 200)] + ["y" * 100_000, "end"]
    )
    pieces = _pieces(text)
    assert all(len(piece) <= PIECE_CHARS for _, _, piece in pieces)
    assert "".join(piece for _, _, piece in pieces).replace("\n", "") == text.replace("\n", "")
    lines = text.split("\n")
    for first, last, piece in pieces:
        assert piece[:20] in lines[first - 1] and last - first == piece.count("\n"), (first, last)


def test_pages_of_a_pdf() -> None:
    assert (_part("", 9), _part("3", 9), _part(" p. 2 - 4 ", 9), _part("8-20", 9)) == ("", "p. 3", "pp. 2-4", "pp. 8-9")
    for bad in ("0", "10", "4-2", "all", "1,2"):
        with pytest.raises(ToolError, match=r"page"):
            _part(bad, 9)
    blocks = _passages(("nothing", "The Tide\n mill. tide mill"), "tide mill", Source(kind="file", ref="a.pdf"))
    assert [one.source.place for one in blocks if isinstance(one, TextBlock) and one.source] == ["p. 2", "p. 2"]


def test_what_goes_to_a_site_is_sent_and_names_it() -> None:
    """Policy judges by tags and formats: what is typed is sent, what points or looks says nothing to a site."""
    schemas = {one.name: one.parameters["properties"] for one in Browser().actions()}
    sends = {name for name in schemas if Tag.SEND in Browser().tags(name)}
    assert sends >= {"input_text", "type_text", "answer_prompt", "upload"}
    for name, properties in schemas.items():
        for parameter, said in properties.items():
            kinds = [said, *said.get("anyOf", ())]
            free = [one for one in kinds if one.get("type") in ("string", "number", "integer", "boolean")]
            free = [one for one in free if one.get("format") not in (ELEMENT, INSIDE, SITE) and "enum" not in one]
            if Tag.NETWORK in Browser().tags(name) and "format" not in said and free:
                assert parameter == "url" or said.get("type") == "boolean", (name, parameter)
        assert (name in sends or name == "act") == ("site" in properties), name  # what `act` sends, one of them sends
    assert schemas["input_text"]["site"]["format"] == SITE
    again = {name for name in schemas if Browser().repeatable(name)}
    assert "go_to_url" in again and not again & {"click", "press", "drag", "select", "mouse_path", *sends}


def test_the_schemas_are_small() -> None:
    """A model reads those with which it begins in each step, the others when it opens them."""
    sizes = {one.name: len(one.model_dump_json(exclude={"trust"})) for one in Browser().actions()}
    assert sum(sizes[name] for name in Browser.begins_with) < 1_700 and sum(sizes.values()) < 15_000, sizes
