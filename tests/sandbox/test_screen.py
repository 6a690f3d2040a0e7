"""The screen drawn from bytes: what a person would see, whatever a program sends."""

from __future__ import annotations

import random

import pytest

from agentorchestra.sandbox import Picture
from agentorchestra.sandbox._terminal import SIZE
from agentorchestra.sandbox.screen import Screen

COLUMNS, LINES = SIZE


def drawn(*parts: bytes) -> Picture:
    """A new screen after these bytes, which arrive in parts."""
    screen = Screen()
    for part in parts:
        feed(screen, part)
    return screen.picture()


def feed(screen: Screen, data: bytes) -> None:
    for piece in screen.pieces(data):
        screen.draw(piece)


def test_text_and_the_cursor() -> None:
    assert drawn(b"one\r\n  two \r\n\r\n") == Picture(("one", "  two"), 4, 1)
    assert drawn(b"\x1b[3;5Hhere\x1b[2D") == Picture(("", "", "    here"), 3, 7)
    assert drawn("wide 漢字|".encode()) == Picture(("wide 漢字|",), 1, 9)


def test_a_line_that_the_terminal_wrapped_is_whole() -> None:
    long = b"x" * (2 * COLUMNS + 10)
    assert drawn(b"a\r\n" + long + b"\r\nb") == Picture(("a", long.decode(), "b"), 3, 2)
    # What is as wide as the screen and was not wrapped is a line by itself; the note moves with its row.
    full = b"y" * COLUMNS
    assert drawn(full + b"\r\n" + b"b").lines == (full.decode(), "b")
    assert drawn(long + b"\r\n" * LINES + b"end").lines[-1] == "end"
    assert drawn(long + b"\r\n" * (LINES - 2) + b"end").lines[0] == "x" * (COLUMNS + 10)


def test_what_is_highlighted() -> None:
    assert drawn(b"\x1b[7m PID  USER \x1b[m\r\na \x1b[7mb\x1b[27m c \x1b[7md\x1b[m").highlighted == (
        "PID  USER",
        "b",
        "d",
    )


def test_the_second_screen_gives_the_first_one_back() -> None:
    before, picture = b"$ vi\r\n", b"\x1b[?1049h\x1b[2J\x1b[Hin the editor"
    assert drawn(before + picture).lines == ("in the editor",)
    assert drawn(before + picture + b"\x1b[?1049l$ ") == Picture(("$ vi", "$"), 2, 3)


def test_what_xterm_draws_with() -> None:
    """The sequences of `xterm` in terminfo that pyte lacks: rep, cbt, nel, smacs, indn, rin, E3."""
    assert drawn(b"=\x1b[9b|").lines == ("==========|",)
    assert drawn(b"\tab\x1b[Zx").lines == ("        xb",)
    assert drawn(b"one\x1bEtwo").lines == ("one", "two")
    assert drawn(b"\x1b(0lqk\x1b(Bq \xc3\xa9").lines == ("┌─┐q é",)
    rows = b"a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[1;2H"
    assert drawn(rows + b"\x1b[S|") == Picture(("a|", "c", "", "d"), 1, 3)
    assert drawn(rows + b"\x1b[T|") == Picture(("a|", "", "b", "d"), 1, 3)
    assert drawn(b"kept\x1b[3J").lines == ("kept",)


def test_another_size() -> None:
    screen = Screen((30, 6))
    feed(screen, b"\x1b[6;1H" + b"x" * 40 + b"\x1b[?1049h\x1b[6;30H")
    screen.resize((20, 5))
    feed(screen, b"y")
    assert screen.picture() == Picture(("", "", "", "", " " * 19 + "y"), 5, 21)
    feed(screen, b"\x1b[?1049lz")
    assert screen.picture().line <= 5
    screen.resize((100, 10))
    feed(screen, b"\x1b[H\x1b[2J" + b"\t" * 8 + b"end")
    assert screen.picture().lines == (" " * 64 + "end",)


def test_keys_of_the_cursor_are_sent_as_the_program_wants_them() -> None:
    screen = Screen()
    assert screen.keys_for(b"\x1b[Aa\x1b[3~") == b"\x1b[Aa\x1b[3~"
    feed(screen, b"\x1b[?1h\x1b=")
    assert screen.keys_for(b"\x1b[Aa\x1b[3~\x1b[H") == b"\x1bOAa\x1b[3~\x1bOH"
    feed(screen, b"\x1b[?1l\x1b>")
    assert screen.keys_for(b"\x1b[A") == b"\x1b[A"


@pytest.mark.parametrize(
    "unknown",
    [
        b"\x1b[>4;2m",
        b"\x1b[>c",
        b"\x1b[!p",
        b"\x1b[4:3m",
        b"\x1b[?2026$p",
        b"\x1b[22;0;0t",
        b"\x1b[<u",
        b"\x1b[=1;1u",
        b"\x1b[?1;2A",
        b"\x1b[?6n",
        b"\x1bP$q q\x1b\\",
        b"\x1b_Gi=31;AAAA\x1b\\",
        b"\x1b]0;a title\x07",
        b"\x1b]8;;https://a.example\x1b\\",
        b"\x1b[3q",
        b"\x1b[?3h",
        b"\x1b[?5h",
        b"\x1b#8",
        b"\x01\x02\x7f",
        "\ufe0f\u200d\u0301".encode(),
    ],
)
def test_what_a_screen_does_not_show_is_not_shown(unknown: bytes) -> None:
    whole = drawn(b"before " + unknown + b"after")
    assert whole == Picture(("before after",), 1, 13)
    in_parts = drawn(b"before ", *(bytes([byte]) for byte in unknown), b"after")
    assert in_parts == whole


def test_what_never_ends_does_not_hide_what_follows() -> None:
    for begun in (b"\x1b]0;" + b"t" * 10_000, b"\x1bP" + b"p" * 10_000, b"\x1b[" + b"1" * 10_000):
        assert drawn(begun, b"\r\n", b"\x1b[2J\x1b[Hseen").lines[0].endswith("seen"), begun[:4]


def test_questions_are_answered() -> None:
    screen = Screen()
    feed(screen, b"\x1b[4;7H\x1b[6n\x1b[5n\x1b[c")
    assert screen.answers() == b"\x1b[4;7R\x1b[0n\x1b[?6c"
    assert screen.answers() == b""
    feed(screen, b"\x1b[6n" * 10_000)
    assert 0 < len(screen.answers()) <= 200


def test_nothing_of_a_program_changes_the_size_or_fails() -> None:
    """Random sequences; the seed is fixed."""
    chance = random.Random(23)
    finals = b"ABCDEFGHIJKLMPSTXZ@`abcdefghlmnpqrstu"
    for _ in range(60):
        screen = Screen()
        for _ in range(80):
            numbers = ";".join(str(chance.choice([0, 1, 5, 40, 120, 9999, 10**30])) for _ in range(chance.randrange(4)))
            sequence = b"\x1b[" + chance.choice([b"", b"", b"?", b">"]) + numbers.encode()
            feed(screen, sequence + bytes([chance.choice(finals)]) + chance.randbytes(chance.randrange(12)))
        picture = screen.picture()
        assert len(picture.lines) <= LINES and 1 <= picture.line <= LINES
        assert all(len(line) <= COLUMNS * LINES for line in picture.lines)
    many = Screen()
    feed(many, b"a" + "\u0301".encode() * 30_000)  # accents on one letter
    assert len(many.picture().lines[0]) < 300
