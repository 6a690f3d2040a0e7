"""Texts as models write them: thoughts, blocks between fences, loose JSON; the time is linear in the length."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

PYTHON = ("python", "py", "python3")
FENCE = re.compile(
    r"^[ \t]*(?P<marks>`{3,})[ \t]*+(?P<language>[\w+-]*+)[^\n`]*\n(?P<inside>.*?)"
    r"(?:^[ \t]*(?P=marks)`*[ \t]*$|(?P<open>\Z))",
    re.MULTILINE | re.DOTALL,
)
"""A block between fences: its language, what is inside, and `open` (not None) where it has no end."""

_NAMES = r"(?:antml:|seed:|mm:)?(?:think|thinking|thoughts?|reasoning|reflection|scratch_?pad)"
_THOUGHT_MARK = re.compile(
    rf"(?P<opens><{_NAMES}>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|begin_of_thought\|>|<\|channel>thought\b"
    rf"|^Here(?:'s| is) my thought process:)|(?P<closes></{_NAMES}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>"
    r"|<\|end_of_thought\|>|<channel\|>|^Here(?:'s| is) my response:)|(?P<fence>^[ \t]*`{3,})",
    re.IGNORECASE | re.MULTILINE,
)
_CHANNEL = re.compile(
    r"(?:<\|start\|>\w*)?(?: ?to=[\w.]+)?<\|channel\|>(?P<channel>[^<{]{0,200})"
    r"(?:<\|constrain\|>[^<{]{0,40})?<\|message\|>"
)
_BARE_CHANNEL = re.compile(r"(?:\A|assistant)(analysis|final|commentary(?: to=[\w.]+)?)")
_BEGINS = re.compile(r"\A\s*(?:<\|im_start\|>assistant\n|<\|start_header_id\|>assistant<\|end_header_id\|>|<s>)?\s*")
_ENDS = re.compile(
    r"(?:<\|(?:im_end|eot_id|eom_id|end|return|endoftext|END_OF_TURN_TOKEN)\|>|</s>|<eos>|<end_of_turn>|<turn\|>"
    r"|<｜end▁of▁sentence｜>|\s)+\Z"
)
_WRAPPER = re.compile(
    r"(?:<(?P<tag>answer|response)>|<\|(?:START_RESPONSE|begin_of_solution)\|>)(?P<inside>.*)"
    r"(?:</(?P=tag)>|<\|(?:END_RESPONSE|end_of_solution)\|>)",
    re.DOTALL,
)
_NEAR = 80  # characters around a place that are looked at


def split_thoughts(text: str) -> tuple[str, str]:
    """Return a reply's thoughts, joined by a blank line, and the reply without them.

    A mark of thoughts counts at the start of a line, outside of fences and of a text that is JSON as a whole. What is
    open at the end is a thought to the end; a closing mark without an opening one ends a thought from the start.
    """
    rest = _without_ends(text)
    if (bare := rest.strip())[:1] in ("{", "[") and bare[-1:] in ("}", "]") and _is_json(bare):
        return "", rest
    channel_thoughts, rest = _channels(rest)
    tag_thoughts, rest = _tag_thoughts(rest)
    thoughts = "\n\n".join(part.strip() for part in (*channel_thoughts, *tag_thoughts) if part.strip())
    if channel_thoughts or tag_thoughts:
        rest = _without_ends(rest).strip()
    wrapper = _WRAPPER.fullmatch(rest) if thoughts else None
    return thoughts, wrapper["inside"].strip() if wrapper is not None else rest


def _without_ends(text: str) -> str:
    """Return a text without the tokens that begin and end a turn; some servers leave them in."""
    begins, ends = _BEGINS.match(text), _ENDS.search(text, max(0, len(text) - _NEAR))
    text = text[: ends.start()] if ends is not None and ends[0].strip() else text
    return text[begins.end() :] if begins is not None and begins[0].strip() else text


def _channels(text: str) -> tuple[list[str], str]:
    """Return the thoughts and the rest of a text in gpt-oss's channels, also where the tokens themselves are lost."""
    if text.startswith("analysis") and ("assistantfinal" in text or "assistantcommentary" in text):
        text = _BARE_CHANNEL.sub(r"<|channel|>\1<|message|>", text)
    elif text.startswith(("commentary to=", "analysis to=")):
        text = f"<|channel|>{text}"
    matches = [*_CHANNEL.finditer(text)] if "<|message|>" in text else []
    if not matches:
        return [], text
    thoughts, rest = list[str](), [text[: matches[0].start()]]
    for match, end in zip(matches, [*(match.start() for match in matches[1:]), len(text)], strict=True):
        body = re.split(r"<\|(?:end|return|start)\|>", text[match.end() : end], maxsplit=1)[0]
        if "to=" in match[0]:
            rest.append(text[match.start() : end])
        else:
            (thoughts if match["channel"].startswith("analysis") else rest).append(body)
    return thoughts, "\n".join(part.strip() for part in rest if part.strip())


def _tag_thoughts(text: str) -> tuple[list[str], str]:
    lower = text.casefold()
    if not any(word in lower for word in ("think", "thought", "reason", "reflection", "scratch")):
        return [], text
    thoughts, rest = list[str](), list[str]()
    at = start = depth = closed = 0
    in_fence = False
    for mark in _THOUGHT_MARK.finditer(text):
        if mark["fence"] or in_fence:
            in_fence ^= bool(mark["fence"]) and not depth
        elif mark["opens"]:
            if not depth:
                if not starts_line(text, mark.start(), at):
                    continue
                rest.append(text[at : mark.start()])
                start, closed = mark.end(), 0
            depth += 1
        elif depth:
            depth, closed, at = depth - 1, mark.start(), mark.end()
            if not depth:
                thoughts.append(text[start:closed])
        elif not thoughts and text[mark.start() - 1 : mark.start()] not in ("`", '"', "'"):
            thoughts.append(text[: mark.start()])
            at = mark.end()
    if depth:
        thoughts.append(text[start : closed or len(text)])
        at = at if closed else len(text)
    return (thoughts, "".join([*rest, text[at:]])) if thoughts else ([], text)


def starts_line(text: str, place: int, after: int = 0) -> bool:
    """Return whether only blanks are between the start of a line (or the place `after`) and a place in it."""
    before = text[max(after, place - _NEAR) : place]
    return not before.rpartition("\n")[2].strip() and (len(before) < _NEAR or "\n" in before)


def whole_characters(text: str) -> str:
    """Return the text without lone surrogates, which JSON can escape but nothing can store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def without_fence(text: str) -> str:
    """Return what is in a block between ``` where the text is nothing else, else the text."""
    block = FENCE.match(text.strip())
    whole = block is not None and block["open"] is None and block.end() == len(text.strip())
    return block["inside"].removesuffix("\n") if block is not None and whole else text


DECODER = json.JSONDecoder(strict=False, parse_constant=str)
"""Of JSON with raw control characters, and with `NaN` and `Infinity`, which JSON does not have, as texts.

It raises ValueError, and RecursionError for what is nested too deep.
"""
_LOOSE = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|\\.|//[^\n]*|#[^\n]*|/\*[^*]{0,1000}\*/|,(?=\s*[}\]])', re.DOTALL
)  # texts, and what is to go
_VALUE = re.compile(r'\{(?=\s*["}])|\[(?=\s*[\[{"\]\dtfn-])')
_MOST_LITERAL = 200_000  # characters of a Python literal that are read
_WORK, _DEEP = 20, 100_000
"""Characters that may be read in vain, as a multiple of a text's own; those that a value nested too deep counts for."""


def _is_json(text: str) -> bool:
    try:
        DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def read_json(text: str) -> Any:
    """Return the JSON value of a text, or raise ValueError.

    Also read are JSON in a fence, raw control characters, comments, trailing commas, and a plain Python literal.
    """
    text = without_fence(text).strip()
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError):
        if text[:1] not in ("{", "[") or len(text) > _MOST_LITERAL:
            raise ValueError(f"no JSON but {text[:_NEAR]!r}") from None
    tidy = text
    for _ in range(2):  # behind a comma there may be a comment
        tidy = _LOOSE.sub(lambda token: token[0] if token[0][0] in '"\\' else "", tidy)
    try:
        return DECODER.decode(tidy)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return DECODER.decode(json.dumps(ast.literal_eval(text)))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise ValueError(f"no JSON but {text[:_NEAR]!r}") from None


def values_in(text: str) -> Iterator[Any]:
    """Yield the JSON objects and lists in a text, in order: what is inside of one is not yielded again."""
    left, start = _WORK * len(text) + _DEEP, _VALUE.search(text)
    while start is not None and left > 0:
        end = start.end()
        try:
            value, end = DECODER.raw_decode(text, start.start())
            yield value
        except json.JSONDecodeError as exc:
            read = (len(text) if exc.msg.startswith("Unterminated") else exc.pos) - start.start()
            left -= read + exc.pos // 10 + 1  # the lines up to there are counted for the error
        except (ValueError, RecursionError):
            left -= _DEEP
        start = _VALUE.search(text, end)
