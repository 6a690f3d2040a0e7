"""Texts as models write them: thoughts apart from words, blocks between fences, JSON that does not keep to the form.

A text of any length takes time in proportion to it: nothing here looks twice at what did not fit.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

_NAMES = r"(?:antml:|seed:|mm:)?(?:think|thinking|thoughts?|reasoning|reflection|scratch_?pad)"
_MARKS = re.compile(
    rf"(?P<opens><{_NAMES}>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|begin_of_thought\|>|<\|channel>thought\b)"
    rf"|(?P<closes></{_NAMES}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|end_of_thought\|>|<channel\|>)"
    r"|(?P<fence>^[ \t]*`{3,})",
    re.IGNORECASE | re.MULTILINE,
)
_MESSAGE = re.compile(
    r"(?:<\|start\|>\w*)?(?: ?to=[\w.]+)?<\|channel\|>(?P<channel>[^<{]{0,200})"
    r"(?:<\|constrain\|>[^<{]{0,40})?<\|message\|>"
)
_PLAIN_CHANNEL = re.compile(r"(?:\A|assistant)(analysis|final|commentary(?: to=[\w.]+)?)(?=[\s\W]|[A-Z0-9]|\w)")
_SAID = re.compile(r"\A\s*Here(?:'s| is) my thought process:(?P<thoughts>.*?)^Here(?:'s| is) my response:", re.S | re.M)
_ENDS = re.compile(
    r"(?:<\|(?:im_end|eot_id|eom_id|end|return|endoftext|END_OF_TURN_TOKEN)\|>|</s>|<eos>|<end_of_turn>|<turn\|>"
    r"|<｜end▁of▁sentence｜>|\s)+\Z"
)
_TURN = re.compile(r"\A\s*(?:<\|im_start\|>assistant\n|<\|start_header_id\|>assistant<\|end_header_id\|>|<s>\s*)")
_WRAPPED = re.compile(
    r"\A\s*(?:<(?P<tag>answer|response)>(.*)</(?P=tag)>|<\|START_RESPONSE\|>(.*?)<\|END_RESPONSE\|>"
    r"|<\|begin_of_solution\|>(.*)<\|end_of_solution\|>)\s*\Z",
    re.DOTALL,
)
_INDENT = 40  # characters before a mark that stands at the start of its line
_SHOWN_TOKEN = 80  # the longest run of white space and tokens at the end of a text that is looked at


class Thinking(NamedTuple):
    """A text taken apart: its thoughts without their marks, and the rest."""

    thoughts: str
    rest: str


def split_thoughts(text: str) -> Thinking:
    """Return a reply's thoughts, joined by a blank line, and the reply without them.

    A mark of thoughts counts at the start of a line, outside of fences and of a text that is JSON as a whole. What is
    open at the end is a thought to the end; a closing mark without an opening one ends a thought from the start.
    """
    bare = _unmarked(text)
    if bare[:1] in ("{", "[") and bare[-1:] in ("}", "]") and _is_json(bare):
        return Thinking("", bare)
    thoughts, rest = _channels(bare)
    if (said := _SAID.match(rest)) is not None:
        thoughts, rest = [*thoughts, said["thoughts"]], rest[said.end() :]
    more, rest = _marked(rest)
    thoughts = [one for one in (each.strip() for each in (*thoughts, *more)) if one]
    if not thoughts and rest == bare:
        return Thinking("", rest)
    rest = _unmarked(rest.strip())
    if thoughts and (wrapped := _WRAPPED.match(rest)) is not None:
        rest = next(one for one in wrapped.groups()[1:] if one is not None).strip()
    return Thinking("\n\n".join(thoughts), rest)


def _unmarked(text: str) -> str:
    """Return a text without the tokens that begin and end a turn; some servers leave them in."""
    begun = _TURN.match(text)
    text = text[begun.end() :] if begun is not None else text
    if not text.rstrip().endswith(("|>", "</s>", "<eos>", "<end_of_turn>", "｜>")):
        return text
    tail = text[-_SHOWN_TOKEN:]
    found = _ENDS.search(tail)
    return text[: len(text) - len(tail) + found.start()] if found is not None else text


def _channels(text: str) -> tuple[list[str], str]:
    """Return the thoughts and the rest of a text in gpt-oss's channels, also where the tokens themselves are lost."""
    if text.startswith("analysis") and ("assistantfinal" in text or "assistantcommentary" in text):
        text = _PLAIN_CHANNEL.sub(r"<|channel|>\1<|message|>", text)
    elif text.startswith(("commentary to=", "analysis to=")):
        text = f"<|channel|>{text}"
    found = list(_MESSAGE.finditer(text)) if "<|message|>" in text else []
    if not found:
        return [], text
    thoughts, rest = [], [text[: found[0].start()]]
    for match, end in zip(found, [*(one.start() for one in found[1:]), len(text)], strict=True):
        body = re.split(r"<\|(?:end|return|start)\|>", text[match.end() : end], maxsplit=1)[0]
        if "to=" in match[0]:
            rest.append(text[match.start() : end])
        elif match["channel"].strip().startswith("analysis"):
            thoughts.append(body)
        else:
            rest.append(body)
    return thoughts, "\n".join(one for one in rest if one.strip())


def _marked(text: str) -> tuple[list[str], str]:
    thoughts: list[str] = []
    rest: list[str] = []
    lower = text.casefold()
    if not any(word in lower for word in ("think", "thought", "reason", "reflection", "scratch")):
        return [], text
    at = start = depth = closed = 0
    fenced = False
    for mark in _MARKS.finditer(text):
        if mark["fence"]:
            fenced ^= not depth
        elif fenced:
            continue
        elif mark["opens"]:
            if not depth:
                before = text[max(at, mark.start() - _INDENT) : mark.start()]
                if before.rpartition("\n")[2].strip() or (len(before) == _INDENT and "\n" not in before):
                    continue  # within a sentence
                rest.append(text[at : mark.start()])
                start, closed = mark.end(), 0
            depth += 1
        elif depth:
            depth, closed = depth - 1, mark.start()
            if not depth:
                thoughts.append(text[start : mark.start()])
            at = mark.end()
        elif not thoughts and text[mark.start() - 1 : mark.start()] not in ("`", '"', "'"):
            thoughts.append(text[: mark.start()])
            at = mark.end()
    if depth:
        thoughts.append(text[start:closed] if closed else text[start:])
        at = at if closed else len(text)
    return (thoughts, "".join([*rest, text[at:]])) if thoughts else ([], text)


# -- blocks between fences ---------------------------------------------------------------------------------------------


_FENCE = re.compile(
    r"^[ \t]*(?P<marks>`{3,})(?P<language>[^\n`]*)\n(?P<inside>.*?)(?:^[ \t]*(?P=marks)`*[ \t]*$|(?P<open>\Z))",
    re.MULTILINE | re.DOTALL,
)
PYTHON = ("python", "py", "python3")


class Fenced(NamedTuple):
    """A block between fences: its language in small letters, what is inside, where it is, whether its end is there."""

    language: str
    inside: str
    start: int
    end: int
    closed: bool


def fenced_blocks(text: str) -> list[Fenced]:
    """Return the blocks of a text; a Python program goes on behind a fence within one of its strings."""
    blocks: list[Fenced] = []
    at = 0
    while (found := _FENCE.search(text, at)) is not None:
        start, stop, end = *found.span("inside"), found.end()
        language = next(iter(found["language"].casefold().split()), "")
        if found["open"] is None and language in PYTHON and (quotes := found["inside"].count('"""')) % 2:
            at = end
            for line in re.compile(rf"^[ \t]*{found['marks']}`*[ \t]*$", re.MULTILINE).finditer(text, end):
                quotes += text.count('"""', at, line.start())
                at = line.end()
                if not quotes % 2:
                    stop, end = line.start(), line.end()
                    break
        blocks.append(Fenced(language, text[start:stop], found.start(), end, found["open"] is None))
        at = end
    return blocks


def unfenced(text: str) -> str:
    """Return what stands in a block between ``` where the text is nothing else, else the text."""
    if not text.lstrip().startswith("```"):
        return text
    blocks = fenced_blocks(text)
    whole = len(blocks) == 1 and blocks[0].closed and not text[blocks[0].end :].strip()
    return blocks[0].inside.removesuffix("\n") if whole else text


def whole_characters(text: str) -> str:
    """Return the text without lone surrogates, which JSON can escape but nothing can store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


# -- JSON --------------------------------------------------------------------------------------------------------------


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse)
_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|\\.|//|/\*|#|,', re.DOTALL)
_BEGINS = re.compile(r'\{(?=\s*["}])|\[(?=\s*[\[{"\]\dtfn-])')
_AFTER_COMMA = re.compile(r"\s*[}\]]")
_MOST_LITERAL = 200_000  # characters of a Python literal that are read
_WORK, _DEEP = 20, 100_000
"""Characters that may be read in vain, as a multiple of a text's own; those that a value nested too deep counts for."""


def _is_json(text: str) -> bool:
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def read_json(text: str) -> Any:
    """Return the JSON value of a text, or raise ValueError.

    Also read are JSON in a fence, raw control characters, comments, trailing commas, and a plain Python literal.
    """
    text = unfenced(text).strip()
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except ValueError as exc:
        if text[:1] not in ("{", "["):
            raise
        for way in (lambda: _DECODER.decode(_tidied(text)), lambda: _literal(text)):
            try:
                return way()
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                continue
        raise exc


def _tidied(text: str) -> str:
    """Return JSON without comments and trailing commas."""
    kept: list[str] = []
    at = 0
    for token in _TOKENS.finditer(text):
        if token.start() < at:
            continue
        if token[0] == "," and (end := _AFTER_COMMA.match(text, token.end())) is not None:
            kept.append(text[at : token.start()])
            at = end.end() - 1
        elif token[0] in ("//", "#", "/*"):
            kept.append(text[at : token.start()])
            close = text.find("*/" if token[0] == "/*" else "\n", token.end())
            at = len(text) if close < 0 else close + 2 * (token[0] == "/*")
    return "".join([*kept, text[at:]])


def _literal(text: str) -> Any:
    if len(text) > _MOST_LITERAL:
        raise ValueError("it is too long for a Python literal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = ast.literal_eval(text)
    return _DECODER.decode(json.dumps(value, allow_nan=False))


def json_at(text: str, at: int) -> tuple[Any, int]:
    """Return the JSON object or list that begins at a place, and where it ends; raise ValueError."""
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def values_in(text: str) -> Iterator[Any]:
    """Yield the JSON objects and lists in a text, in order: what is inside of one is not yielded again."""
    left = _WORK * len(text) + 10_000
    begun = _BEGINS.search(text)
    while begun is not None and left > 0:
        start = begun.start()
        end = start + 1
        try:
            value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as exc:
            read = (len(text) if exc.msg.startswith("Unterminated") else exc.pos) - start
            left -= read + exc.pos // 10 + 1  # the lines up to there are counted for the error
        except (ValueError, RecursionError):
            left -= _DEEP
        else:
            yield value
        begun = _BEGINS.search(text, end)
