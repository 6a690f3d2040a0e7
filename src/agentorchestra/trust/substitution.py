"""Other values of the same shape in place of untrusted ones: digits stay digits, letters letters, and what stands
between them stays, so that a mailbox is still a mailbox, an address an address, and JSON is still JSON.

The prose around the values is left alone: a model has to be able to follow what stands there.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterable

from pydantic import JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import BLOCKS, Outcome
from agentorchestra.core.ids import sha256_text
from agentorchestra.trust.words import Words

_LONGEST_COPIED = 60  # characters of a text in a call that is looked for in what was read; a longer one is no name

_DATE = r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)"
_PIECE = re.compile(rf"{_DATE}|\d+(?:\.\d+)+|[^\W_]+")
"""What is put in the place of another as a whole: a date, a number with points, a word."""

_ESCAPE = r"\\u[0-9a-fA-F]{4}|\\."
_SAID = re.compile(rf"{_ESCAPE}|{_PIECE.pattern}")
_VALUE = (
    rf"(?P<kept>{_ESCAPE}|(?<![\w.])\d+(?:\.\d+)?[eE][+-]?\d+(?![\w.]))"  # JSON's own ways of writing
    r"|[A-Za-z][A-Za-z0-9+.-]*://[^\s<>\"'`\\]+"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?"
    r"|(?P<word>[\w-]+(?:\.[\w-]+)*)"
)
_FORM = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*(?=://)|\bwww(?=\.)|(?<=\.)[A-Za-z]+(?=[/?#:]|$)")
"""What tells the form of an address or of a file's name, and stays: the scheme, `www`, the last label."""

_ATTEMPTS = 50


class Substitution:
    """Puts other values in the place of those that nobody vouches for, and takes them back; always the same ones.

    Args:
        copied: texts from calls. Words and names among them count as values wherever they were read.
        user: a value that stands in the user's words stays.
        texts: everything that was read or said: no new value stands there.
    """

    def __init__(self, copied: Iterable[str], user: Words, texts: Iterable[str]) -> None:
        self._user = user
        self._taken = {piece for text in texts for piece in _PIECE.findall(text)}
        self._new: dict[str, str] = {}
        self._old: dict[str, str] = {}
        words = sorted({one for one in copied if _is_name(one)}, key=lambda one: (-len(one), one))
        named = "".join(rf"(?<!\w){re.escape(one)}(?!\w)|" for one in words)
        self._values = re.compile(named + _VALUE)

    def __len__(self) -> int:
        return len(self._new)

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return an outcome with other values in what is untrusted."""
        if outcome.trust is not Trust.UNTRUSTED:
            return outcome
        error = outcome.error if outcome.error is None or outcome.own_words else self.text(outcome.error)
        return outcome.model_copy(update={"value": self.value(outcome.value), "error": error})

    def value(self, value: JsonValue) -> JsonValue:
        """Return a JSON value with other values in its texts and numbers; names of fields stay."""
        if isinstance(value, dict) and BLOCKS in value:
            blocks = value[BLOCKS]
            return {BLOCKS: [self._block(one) for one in blocks]} if isinstance(blocks, list) else value
        return _mapped(value, self.text)

    def text(self, text: str) -> str:
        """Return a text with other values."""
        return self._values.sub(self._found, text)

    def undone(self, value: JsonValue) -> JsonValue:
        """Return a JSON value with what stood there before."""
        return _mapped(value, lambda text: _SAID.sub(lambda found: self._old.get(found[0], found[0]), text))

    def within(self, text: str) -> bool:
        """Return True if one of the new values stands in a text."""
        return any(piece in self._old for piece in _SAID.findall(text))

    def _found(self, found: re.Match[str]) -> str:
        value, word = found[0], found["word"]
        plain = word is not None and not word.startswith("www.") and not any(char.isdigit() for char in word)
        return value if found["kept"] or plain else self._other(value)

    def _block(self, block: JsonValue) -> JsonValue:
        if not isinstance(block, dict) or block.get("trust", Trust.UNTRUSTED) != Trust.UNTRUSTED:
            return block
        text = block.get("text")
        return {**block, "text": self.text(text)} if isinstance(text, str) else block

    def _other(self, value: str) -> str:
        if self._user.hold(value):
            return value
        form = {found.span() for found in _FORM.finditer(value)}
        return _PIECE.sub(lambda piece: piece[0] if piece.span() in form else self._piece(piece[0]), value)

    def _piece(self, piece: str) -> str:
        if len(piece) < 2 or piece in self._old:
            return piece  # too short to be told from others, or new already
        known = self._new.get(piece)
        if known is None:
            made = (_shaped(piece, attempt) for attempt in range(_ATTEMPTS))
            known = next((one for one in made if one not in self._taken and one not in self._old), piece)
            if known != piece:
                self._new[piece], self._old[known] = known, piece
        return known


def _is_name(text: str) -> bool:
    """Return True for one word, and for several that are written as names are; what is written otherwise is prose."""
    words = text.split()
    return 1 < len(text) <= _LONGEST_COPIED and (len(words) == 1 or not any(one[0].islower() for one in words))


def _mapped(value: JsonValue, text: Callable[[str], str]) -> JsonValue:
    """Return a JSON value with another text for each of its texts and numbers."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {name: _mapped(one, text) for name, one in value.items()}
    if isinstance(value, list):
        return [_mapped(one, text) for one in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = repr(value)
        return type(value)(text(written)) if written.lstrip("-").replace(".", "", 1).isdigit() else value
    return value


def _shaped(piece: str, attempt: int) -> str:
    """Return another piece of the same shape; the same one for the same attempt."""
    chance = random.Random(sha256_text(f"{attempt} {piece}"))
    if re.fullmatch(_DATE, piece):
        return f"{piece[:4]}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    last = len(piece) - 1
    made = []
    for place, char in enumerate(piece):
        if char.isdigit():
            # At both ends a zero would make another number of it, or none.
            ends = place in (0, last)
            made.append("0" if ends and char == "0" else chance.choice("123456789" if ends else string.digits))
        elif char.isalpha():
            made.append(chance.choice(string.ascii_uppercase if char.isupper() else string.ascii_lowercase))
        else:
            made.append(char)
    return "".join(made)
