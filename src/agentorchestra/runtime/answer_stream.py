"""The answer of a run as it streams: which pieces of the top agent's replies are on the way to be it.

Nobody knows before a reply has ended whether it is the answer. So what is told follows one rule: when a run ends with
an answer, the texts of all `delta` notices since the last `retracted` are that answer.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic_core import from_json

from agentorchestra.core.reply_text import split_thoughts
from agentorchestra.runtime.bus import Bus, Notice

Part = Literal["text", "thought", "arguments"]
"""The part of a reply that a piece belongs to: its words, its thoughts, the arguments of a call as JSON."""


class AnswerStream:
    """Tells whoever watches a run what its answer is so far."""

    def __init__(self, run_id: str, bus: Bus) -> None:
        self._run, self._bus = run_id, bus
        self._told = ""
        self._of = ""  # the key of the request whose reply it is

    def grow(self, text: str, *, key: str, actor: str) -> None:
        """Make the answer known up to `text`: what is new is a delta, and what no more holds is retracted."""
        if not text.startswith(self._told) or key != self._of:
            self.retract()
        new, self._told, self._of = text[len(self._told) :], text, key
        if new:
            self._bus.publish(Notice(kind="delta", run=self._run, key=key, actor=actor, text=new))

    def retract(self) -> None:
        """Say that what was told is not the answer."""
        if self._told:
            self._bus.publish(Notice(kind="retracted", run=self._run, key=self._of))
        self._told = ""

    def settle(self, answer: str) -> None:
        """Make what was told the answer of a run that has ended; "" for a run without one."""
        if self._bus.listening and answer.strip() != self._told.strip():
            self.retract()
            self.grow(answer, key="", actor="")


class ReplyStream:
    """Takes the pieces of one reply.

    Args:
        ctx: the branch of the request.
        finish: the call whose argument `answer` is the agent's answer.
        words: whether a reply in words is.
    """

    def __init__(self, ctx: Any, finish: str, words: bool) -> None:
        self._ctx, self._finish, self._words = ctx, finish, words
        self._text = self._arguments = ""
        self._thinks = True  # whether the text may still be thoughts, or a decision in JSON

    def __call__(self, text: str, part: Part = "text", call: str = "") -> None:
        """Tell of one piece; of the arguments of other calls nothing is told."""
        if part == "arguments" and call == self._finish:
            self._arguments += text
            self._grow(_answer(_json(self._arguments)))
            return
        if part == "text" and self._words:
            self._text += text
            words = self._text if not self._thinks else self._words_of(text)
            if words:
                self._grow(words)
                return
        if part != "arguments":
            self._ctx.thinking(text)

    def _words_of(self, piece: str) -> str:
        """Return the words so far of a text that begins with a mark of thoughts, or with JSON; "" while it is that."""
        first = self._text.lstrip()[:1]
        if first in ("{", "[", "`"):
            calls = _json(self._text).get("tool") if first == "{" and '"answer"' in self._text else None
            last = calls[-1] if isinstance(calls, list) and calls else None
            return _answer(last.get("args")) if isinstance(last, dict) and last.get("name") == self._finish else ""
        if first in ("<", "◁"):
            # Looked at only where a mark may have ended: a long thought takes time in proportion to its length.
            rest = split_thoughts(self._text)[1] if any(end in piece for end in "]>▷") else ""
            self._thinks, self._text = not rest, rest or self._text
            return rest
        self._thinks = not first
        return self._text if first else ""

    def _grow(self, answer: str) -> None:
        self._ctx.run.answer.grow(self._ctx.run.redactor.text(answer), key=str(self._ctx.key), actor=self._ctx.actor)


def _json(text: str) -> dict[str, Any]:
    """Return the JSON object that a text begins, as far as it goes; {} for any other text."""
    try:
        value = from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _answer(arguments: Any) -> str:
    answer = arguments.get("answer") if isinstance(arguments, dict) else None
    return answer if isinstance(answer, str) else ""
