"""The plan: what the user's words call for, stated before anything was read, and whether a call lies inside of it.

A model states the plan from the user's words alone (`runtime/planning.py` asks for it). Its words authorise nothing:
what is compared here is the tool, the number of its calls, and for each argument whether the value stands where the
plan says. A value that decides who gets something (a receiver, an account, an address, an amount) has to be the only
one of its shape there, or the only one of the field that the plan names, or of a record that holds what the user named.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import filterfalse
from typing import Any, NamedTuple, get_args

from pydantic import JsonValue, ValidationError

from agentorchestra.core.content import Trust, text_of
from agentorchestra.core.effects import BLOCKS, Effect, Outcome, Tag
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.policy import PLAN, Given, Plan, PlannedSource, PlannedTest, PlannedUse, PolicyView
from agentorchestra.trust.addresses import links_in, plain_links_in
from agentorchestra.trust.arguments import KEY, Leaf, harmless
from agentorchestra.trust.roles import WEEKDAYS, kind_words, kinds_of, name_words, says_nothing
from agentorchestra.trust.words import (
    MONTHS,
    as_decimal,
    date_of,
    days_in,
    fold,
    number_of,
    numbers_in,
    time_of,
    words_of,
)

MOST_CHARS = 500_000
"""Characters in the results of one tool that are searched: of more, nothing is taken, or somebody could push out what
makes a value one of several."""

LONGEST_LABEL = 40
"""Characters before the colon of a line that names what stands behind it."""

LONGEST_YAML = 100_000
"""Characters of a result that is read as YAML, which takes time."""

_BRANCH = "/0.plan-"
_NUMBERED = re.compile(r"^[ \d]{0,8}\d\t", re.MULTILINE)
_YAML_ALIAS = re.compile(r"(?:^|[\s\[{,])[&*]\w")  # a short text with such can hold very much
_FENCED = re.compile(r"\A\s*```\w*\n(.*)\n```\s*\Z", re.DOTALL)
_LABELLED = re.compile(
    rf"\s*(?:[-*]\s+)?[\"'*]*(?P<label>[^\W\d][^:：=\n]{{0,{LONGEST_LABEL}}}?)[\"'*]*\s*(?:[:=](?=\s)|：)\s*(?P<text>.+)"
)
_MAILBOX = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_GROUP = r"(?=[A-Z]*+\d)[A-Z0-9]++"  # possessive: nobody can write a text that takes long to search
_ACCOUNT = re.compile(rf"(?<![\w@.:/-]){_GROUP}(?:(?: {_GROUP})++|(?:-{_GROUP})*+)(?![\w@])")
_PATH = re.compile(r"(?<![\w:/])(?:~|\.{1,2})?/[^\s\"'<>,;]+|[A-Za-z]:\\[^\s\"'<>,;]+")

_PHONE = re.compile(r"(?<![\w+])(?:\+|00)\d(?:[ ()/.-]{0,2}\d){7,13}(?!\w)")

_DESTINATIONS = name_words(
    "recipient receiver payee to cc bcc email mail mailbox address iban account user participant attendee member "
    "contact beneficiary whom host url uri link site website endpoint webhook domain path folder directory command cmd "
    "code script program sql channel phone password secret token server remote branch repository "
    "empfänger konto adresse destinataire compte destinatario cuenta dirección"
)
"""Words in the names of arguments that say where something goes, or what is carried out."""

_PLACES = name_words("link url address website site page homepage mail email mailbox contact iban account number")
"""Words by which a plan says that an address is to be passed on."""

_IDENTIFIERS = frozenset({"id", "ids", "uid", "uuid", "ref", "index"})

_TEST: dict[str, Any] = {
    "type": "object",
    "properties": {
        "field": {"type": "string"},
        "test": {"type": "string", "enum": [*get_args(PlannedTest.model_fields["test"].annotation)]},
        "value": {"type": "string"},
    },
    "required": ["field", "test", "value"],
    "additionalProperties": False,
}

SCHEMA: dict[str, Any] = {
    "title": PLAN,
    "type": "object",
    "properties": {
        "uses": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "tool": {"type": "string"},
                    "times": {"type": "integer"},
                    "arguments": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "argument": {"type": "string"},
                                "sources": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "properties": {
                                            "kind": {
                                                "type": "string",
                                                "enum": ["task", "result", "composed", "user"],
                                            },
                                            "tool": {"type": "string"},
                                            "where": {"type": "string"},
                                            "what": {"type": "string"},
                                            "which": {"type": "array", "items": _TEST},
                                            "formula": {"type": "string"},
                                        },
                                        "required": ["kind", "tool", "where", "what", "which", "formula"],
                                        "additionalProperties": False,
                                    },
                                },
                            },
                            "required": ["argument", "sources"],
                            "additionalProperties": False,
                        },
                    },
                },
                "required": ["tool", "times", "arguments"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["uses"],
    "additionalProperties": False,
}
"""The JSON that the reply has to be."""


# -- the request and its reply ---------------------------------------------------------------------------------------


def plan_branch(message: int) -> str:
    """Return the branch on which a plan is asked for: `message` is the event with the user's last words, 0 the task."""
    return f"{_BRANCH}{message}"


def is_of_plan(key: EffectKey) -> bool:
    """Return True for the key of a request for a plan."""
    return key.branch.startswith(_BRANCH)


def read_plan(effect: Mapping[str, Any], outcome: Outcome) -> Plan | str:
    """Return the plan of a recorded request, or a sentence on why there is none."""
    if not outcome.ok:
        return outcome.error or "nobody could be asked for a plan"
    arguments = effect.get("arguments") or {}
    text = outcome.response.text
    fenced = _FENCED.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
        if not isinstance(value, dict) or "uses" not in value:
            return 'the reply is no JSON object with the field "uses"'
        plan = Plan(uses=value["uses"], known=frozenset(map(str, arguments.get("tools", ()))))
        reading = frozenset(map(str, arguments.get("sources", ())))
    except ValidationError as exc:
        first = exc.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (ValueError, RecursionError):
        return "the reply is no JSON"
    unknown = sorted({one.tool for one in plan.uses} - plan.known - reading)
    return f"there is no tool {', '.join(unknown)}; name tools of the list" if unknown else plan


# -- a call and the plan ---------------------------------------------------------------------------------------------


class Doubts(NamedTuple):
    """What of a call lies outside of the plan: arguments with what the plan expected of each, or the call itself."""

    arguments: dict[str, str]
    call: str = ""


def outside(plan: Plan, effect: Effect, leaves: Sequence[Leaf], mine: frozenset[str], view: PolicyView) -> Doubts:
    """Return what of a call lies outside of the plan.

    Args:
        leaves: the values of the call.
        mine: paths of the values that are the user's, or from a trusted field.
    """
    uses = [one for one in plan.uses if one.tool == effect.called]
    if not uses:
        expected = ", ".join(dict.fromkeys(one.tool for one in plan.uses)) or "no tool with effects"
        return Doubts({}, f"your words do not call for it (they call for: {expected})")
    most = sum(one.times for one in uses)
    if all(one.times for one in uses) and view.acted(effect.called) >= most:
        often = "once" if most == 1 else f"{most} times"
        return Doubts({}, f"your words call for it {often}, and that was done")
    call = _Call(plan, effect, leaves, mine, view)
    found = [Doubts(call.doubts(use)) for use in uses]
    return min(found, key=lambda one: len(one.arguments))


class _Call:
    """One call that is compared with the uses of its tool in the plan."""

    def __init__(
        self, plan: Plan, effect: Effect, leaves: Sequence[Leaf], mine: frozenset[str], view: PolicyView
    ) -> None:
        self.effect, self.leaves, self.view = effect, leaves, view
        self.acting = frozenset(one.tool for one in plan.uses)
        self.words = words_of(view.user_content)
        self.influenced = effect.lowest_trust is Trust.UNTRUSTED
        self._read_once: dict[str, list[_Piece]] = {}
        self.free = [one for one in leaves if not (one.default or one.element or one.path in mine)]

    def doubts(self, use: PlannedUse) -> dict[str, str]:
        """Return the arguments that are not from where the use says, with what it expected."""
        found = {}
        for leaf in self.free:
            sources = _sources(use, leaf)
            if not self.influenced and not self._gives_away(leaf) and _may_be_worded(sources):
                continue  # nothing from outside can have made the model write it
            if not any(self._fits(leaf, source, use) for source in sources):
                found[leaf.path] = expected_of(sources)
        return found

    def _gives_away(self, leaf: Leaf) -> bool:
        """Return True for a value that decides who gets something, how much, or what is acted on."""
        return _is_destination(leaf) or _identifies(leaf) or self._is_amount(leaf)

    def _fits(self, leaf: Leaf, source: PlannedSource, use: PlannedUse) -> bool:
        if source.kind == "user":
            return False
        if leaf.choice:
            return True  # the schema says what there is to choose from
        if source.kind == "task":
            return self._is_said(leaf, source)
        return self._given(leaf, source, use) if source.kind == "result" else self._may_be_composed(leaf, source, use)

    def _is_said(self, leaf: Leaf, source: PlannedSource) -> bool:
        """Return True if a value stands in the user's words or in the plan's; where much hangs on it, in both.

        The plan was stated from the user's words alone, so what it names beside an argument is meant for that argument.
        """
        if isinstance(leaf.value, bool):
            return False
        said, named = (_stands(leaf.value, texts) for texts in (self.view.user_content, (source.what,)))
        return said and named if self._gives_away(leaf) else said or named

    # -- composed --

    def _may_be_composed(self, leaf: Leaf, source: PlannedSource, use: PlannedUse) -> bool:
        reads = self.effect.tags == {Tag.READ, Tag.NETWORK}  # what goes along with a read tells its host something
        if reads or _is_destination(leaf) or _identifies(leaf) or leaf.path.endswith(KEY):
            return False
        if "currency" in kinds_of(leaf, self.effect):
            return False  # it says how much an amount is
        if self._is_amount(leaf):
            return self._is_covered(leaf, source, use)
        if isinstance(leaf.value, str) and not self._leads_nowhere(leaf, use):
            return False
        return not self._goes_elsewhere(use) or self._read() <= _named_tools(use) | self.acting

    def _is_covered(self, leaf: Leaf, source: PlannedSource, use: PlannedUse) -> bool:
        """Return True if an amount that was worked out is no larger than one that the user named.

        Where it goes to somebody whom the user named, one in the results that the plan names will do.
        """
        texts = [*self.view.user_content]
        if not self._goes_elsewhere(use):
            texts += [_text(one.value) for one in self._results(source)]
        number = _number(leaf.value)
        known = (one for text in texts for one, unit in numbers_in(text) if unit or not 1900 <= one < 2100)
        return number is not None and 0 <= number <= max(known, default=-1)

    def _leads_nowhere(self, leaf: Leaf, use: PlannedUse) -> bool:
        """Return True if what leads elsewhere in a text is the user's, or what the plan says is to be passed on."""
        passed = [one for one in _sources(use, leaf) if one.kind == "result" and _names_place(one)]
        return all(
            self.words.hold(place)
            or any(self._is_the_one(Leaf(leaf.path, place), one, use, self._pieces(one)) for one in passed)
            for place in _places_in(str(leaf.value))
        )

    def _goes_elsewhere(self, use: PlannedUse) -> bool:
        """Return True if the call goes to where the user did not say, by an address or by the name that has it."""
        return any(_is_destination(one) and not self._is_named(one, use) for one in self.free)

    def _is_named(self, leaf: Leaf, use: PlannedUse) -> bool:
        """Return True if a value stands beside a name of the user's wherever the plan says that it is from."""
        sources = [one for one in _sources(use, leaf) if one.kind == "result"]
        found = [(self._anchors(one), piece) for one in sources for piece in self._pieces(one)]
        beside = [anchors & piece.record for anchors, piece in found if _same(leaf.value, piece.text)]
        return bool(beside) and all(beside)

    def _read(self) -> frozenset[str]:
        """Return the tools whose results from outside the text may hold."""
        results = self.view.results()
        return frozenset(
            name
            for name, given in results.items()
            if any(one.untrusted and date_of(_text(one.value).strip()) is None for one in given)
        )

    # -- from a result --

    def _pieces(self, source: PlannedSource) -> list[_Piece]:
        if source.tool not in self._read_once:
            self._read_once[source.tool] = [piece for one in self._results(source) for piece in _pieces(one)]
        return self._read_once[source.tool]

    def _results(self, source: PlannedSource) -> Sequence[Given]:
        results = self.view.results().get(source.tool, ())
        return results if sum(len(_text(one.value)) for one in results) <= MOST_CHARS else ()

    def _given(self, leaf: Leaf, source: PlannedSource, use: PlannedUse) -> bool:
        value = leaf.value
        if _is_destination(leaf) or self._is_amount(leaf):
            return self._is_the_one(leaf, source, use, self._pieces(source))
        if _identifies(leaf):
            return self._is_meant(leaf, source)
        texts = [_text(one.value) for one in self._results(source)]
        if isinstance(value, str) and not self._leads_nowhere(leaf, use):
            # What it links to is judged, unless the whole of what was read is passed on.
            return any(fold(value).strip() == fold(text).strip() for text in texts)
        return any(words_of((text,)).hold(value) for text in texts)

    def _is_meant(self, leaf: Leaf, source: PlannedSource) -> bool:
        """Return True if an id stands there, beside what the user named if any id does."""
        pieces = self._pieces(source)
        found = [one for one in pieces if _same(leaf.value, one.text)]
        fields = {one.field for one in found}
        beside = [one for one in pieces if one.field in fields and self._anchors(source) & one.record]
        return bool(found) and (not beside or any(one in beside for one in found))

    def _is_the_one(self, leaf: Leaf, source: PlannedSource, use: PlannedUse, pieces: Sequence[_Piece]) -> bool:
        """Return True if no other value of its kind could have been meant."""
        wanted = _shape(leaf.value, amount=self._is_amount(leaf))
        alike = [one for piece in pieces for one in _alike(piece, wanted, str(leaf.value))]
        argument = kind_words(leaf, self.effect)
        together = {_plain(one.value, wanted) for one in self.leaves if _top(one.path) == _top(leaf.path)}
        mine = _plain(leaf.value, wanted)
        if all(one.value != mine for one in alike):
            return False
        for pool in self._narrowed(alike, source, argument, labels=wanted in ("number", "words")):
            values = {one.value for one in pool}
            if values == {mine}:
                return True
            if mine in values and all(one.whole for one in pool) and len({one.field for one in pool}) == 1:
                one_list = "[" in leaf.path and len({one.record for one in pool}) == 1
                if one_list or values <= together or use.times != 1:
                    return True
            if mine not in values:
                return False
        return False

    def _narrowed(
        self, alike: list[_Alike], source: PlannedSource, argument: frozenset[str], *, labels: bool
    ) -> Iterator[list[_Alike]]:
        """Yield ever fewer of the values: all, those of the field that is named, those beside what the user named."""
        yield alike
        if any(one.money for one in alike):
            alike = [one for one in alike if one.money]
        where, what = name_words(source.where), frozenset(filterfalse(says_nothing, name_words(source.what)))
        for words in (where, what, argument):
            # Whoever writes a text can write its labels: there those of the argument count besides what the plan says.
            named = [one for one in alike if one.field & words or (labels and one.label & (words | argument))]
            if named:
                alike = named
                break
        yield alike
        names = _names_in(self.view.user_content)
        for words in (names, self._meant(source)):
            if anchored := [one for one in alike if one.record & words]:
                yield anchored

    def _anchors(self, source: PlannedSource) -> frozenset[str]:
        """Return the names of the user's that the plan means, or all of them where it says none."""
        return self._meant(source) or _names_in(self.view.user_content)

    def _meant(self, source: PlannedSource) -> frozenset[str]:
        """Return the names of the user's that the plan has too, and what the plan alone writes as a name."""
        names, words = _names_in(self.view.user_content), _tokens(" ".join(self.view.user_content))
        return (names & _tokens(source.what)) | (_names_in((source.what,)) & words)

    def _is_amount(self, leaf: Leaf) -> bool:
        if isinstance(leaf.value, bool) or _number(leaf.value) is None:
            return False
        kinds = kinds_of(leaf, self.effect)
        return "amount" in kinds or (Tag.SPEND in self.effect.tags and not kinds and not _identifies(leaf))


def expected_of(sources: Iterable[PlannedSource]) -> str:
    """Return in words where the plan says that a value comes from."""
    said = []
    for one in sources:
        what = f" ({harmless(one.what, 80)})" if one.what else ""
        if one.kind == "result":
            field = f", {harmless(one.where, 40)}" if one.where else ""
            said.append(f"the result of {harmless(one.tool, 60)}{field}{what}")
        else:
            said.append({"task": "your words", "composed": "the model's own words", "user": "you"}[one.kind] + what)
    return " or ".join(said) or "nothing"


# -- what an argument is ---------------------------------------------------------------------------------------------


def _is_destination(leaf: Leaf) -> bool:
    text = leaf.value.strip() if isinstance(leaf.value, str) else ""
    if isinstance(leaf.value, bool) or (text and (date_of(text) or time_of(text))):
        return False
    named = not _identifies(leaf) and bool(name_words(_name(leaf)) & _DESTINATIONS)
    return named or _shape(text) in ("mailbox", "link", "path", "account")


def _identifies(leaf: Leaf) -> bool:
    return not name_words(_name(leaf)).isdisjoint(_IDENTIFIERS)


def _name(leaf: Leaf) -> str:
    return leaf.path.removesuffix(KEY)


def _top(path: str) -> str:
    return re.split(r"[.\[ ]", path, maxsplit=1)[0]


def _sources(use: PlannedUse, leaf: Leaf) -> tuple[PlannedSource, ...]:
    """Return the sources of the argument, or of the part of it, that the plan names."""
    path = re.sub(r"\[\d+\]| \(key\)", "", leaf.path)
    named = {one.argument: one.sources for one in use.arguments}
    while path:
        if path in named:
            return named[path]
        path = path.rpartition(".")[0]
    return ()


def _may_be_worded(sources: Sequence[PlannedSource]) -> bool:
    return not sources or any(one.kind == "composed" for one in sources)


def _names_place(source: PlannedSource) -> bool:
    return bool((name_words(source.where) | name_words(source.what)) & _PLACES)


def _named_tools(use: PlannedUse) -> frozenset[str]:
    return frozenset(source.tool for one in use.arguments for source in one.sources if source.tool)


def _number(value: JsonValue) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return as_decimal(value)
    found = number_of(value.strip()) if isinstance(value, str) else None
    return found[0] if found is not None else None


def _places_in(text: str) -> set[str]:
    """Return what in a text leads elsewhere: addresses, mailboxes, phone numbers, accounts."""
    found = {one.rstrip(".,;:!?") for one in links_in(text) | plain_links_in(text)}
    return (
        found
        | {*_MAILBOX.findall(text), *_PHONE.findall(text)}
        | {one for one in _ACCOUNT.findall(text) if _long_code(one)}
    )


def _stands(value: str | int | float, texts: tuple[str, ...]) -> bool:
    """Return True if a value stands in texts of the user's, also as dates without a year, "the 5th", a file's name."""
    words = words_of(texts)
    if words.hold(value):
        return True
    text = str(value).strip()
    if text.isdecimal():
        return len(text) < 3 and any(re.search(rf"(?<!\w){text}(?:st|nd|rd|th|\.)(?!\w)", fold(one)) for one in texts)
    if moment := re.fullmatch(r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(?::00)?)?", text):
        day = date_of(moment[1])
        known = words.hold(moment[1]) or (
            day is not None and any((day.month, day.day) in days_in(one) for one in texts)
        )
        return known and (moment[2] is None or words.hold(moment[2]))
    stem, dot, suffix = text.rpartition(".")
    return bool(dot) and len(stem) > 2 and suffix.isalnum() and len(suffix) < 5 and words.hold(stem)


def _long_code(text: str) -> bool:
    return sum(char.isalnum() for char in text) >= 12


# -- what stands in results ------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A piece of a result: the words of its field and of its label in a text, its text, the words of its record."""

    field: frozenset[str]
    label: frozenset[str]
    text: str
    record: frozenset[str]
    whole: bool  # whether it is a value of a field, or all of a text


class _Alike(NamedTuple):
    """A value of the wanted shape in a piece of a result."""

    value: str | Decimal
    field: frozenset[str]
    label: frozenset[str]
    record: frozenset[str]
    whole: bool
    money: bool  # a number with a currency, or with cents


def _text(value: JsonValue) -> str:
    if isinstance(value, dict) and BLOCKS in value:
        return _NUMBERED.sub("", text_of(Outcome(value=value).blocks()))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pieces(given: Given) -> Iterator[_Piece]:
    """Yield the pieces of a result: the values of its fields, of texts the lines."""
    value: JsonValue = given.value
    if isinstance(value, str) or (isinstance(value, dict) and BLOCKS in value):
        text = _text(value)
        value = _records(text) or text
    asked = _tokens(json.dumps(given.arguments, ensure_ascii=False))
    pending: list[tuple[str, JsonValue, frozenset[str]]] = [("", value, asked)]
    while pending:
        name, one, record = pending.pop()
        if isinstance(one, dict):
            own = record | _tokens(" ".join(str(each) for each in one.values() if isinstance(each, str | int | float)))
            pending.extend((str(key), each, own) for key, each in reversed(one.items()))
        elif isinstance(one, list):
            pending.extend((name, each, record) for each in reversed(one))
        elif isinstance(one, str | int | float) and not isinstance(one, bool):
            yield from _lines(name, str(one), record)


def _records(text: str) -> JsonValue:
    """Return what a text says as JSON, or as a list of records in YAML; None for other texts.

    Lines with labels are no records: whoever writes one line of a text can write such.
    """
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            found: JsonValue = json.loads(text)
            return found
    if not text.startswith("- ") or len(text) > LONGEST_YAML or _YAML_ALIAS.search(text):
        return None
    import yaml

    try:
        listed = yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))  # texts only, nothing is made
    except (yaml.YAMLError, RecursionError):
        return None
    return listed if isinstance(listed, list) and all(isinstance(one, dict) for one in listed) else None


def _lines(name: str, text: str, record: frozenset[str]) -> Iterator[_Piece]:
    field = name_words(name)
    if "\n" not in text.strip():
        labelled = None if name else _LABELLED.fullmatch(text)
        if labelled is None:
            yield _Piece(field, frozenset(), text, record if name else record | _tokens(text), whole=True)
            return
    for part in re.split(r"\n\s*\n|\n(?=- )", text):
        beside = record | _tokens(part)
        for line in part.splitlines():
            found = _LABELLED.fullmatch(line)
            label = name_words(found["label"]) if found else frozenset()
            yield _Piece(field, label, found["text"] if found else line, beside, whole=False)


def _tokens(text: str) -> frozenset[str]:
    return frozenset(one for one in re.findall(r"[\w@.+-]*\w", fold(text)) if len(one) > 2)


def _same(value: str | int | float, text: str) -> bool:
    number, text = _number(value), text.strip(" \"'")
    if number is not None:
        return _number(text) == number
    return fold(str(value)).strip() == fold(text)


def _shape(value: str | int | float, *, amount: bool = False) -> str:
    if amount:
        return "number"
    text = str(value).strip()
    if _MAILBOX.fullmatch(text):
        return "mailbox"
    if not re.search(r"\s", text) and ("://" in text or text.startswith("www.") or text in plain_links_in(text)):
        return "link"
    if _PATH.fullmatch(text):
        return "path"
    return "account" if _ACCOUNT.fullmatch(text) and _long_code(text) else "words"


def _plain(value: str | int | float, shape: str) -> str | Decimal:
    """Return a value in the form in which those of its shape are compared."""
    if shape == "number":
        number = _number(value)
        return number if number is not None else str(value)
    text = str(value).strip()
    if shape == "account":
        return re.sub(r"[ -]", "", text)
    return text if shape in ("link", "path") else fold(text)


def _written(text: str, shape: str) -> Iterable[str]:
    """Return what of a shape stands in a text."""
    if shape == "mailbox":
        return _MAILBOX.findall(text)
    if shape == "link":
        return [one.rstrip(".,;:!?") for one in links_in(text) | plain_links_in(text)]
    if shape == "path":
        return _PATH.findall(text)
    return [one for one in _ACCOUNT.findall(text) if _long_code(one)]


def _alike(piece: _Piece, shape: str, value: str) -> Iterator[_Alike]:
    """Yield what of a shape stands in a piece; of words, which have none, the line as far as it is not `value`."""
    found: list[tuple[str | Decimal, bool]]
    label = piece.label
    money: set[str | Decimal] = set()
    if shape == "number":
        numbers = [*numbers_in(piece.text)]
        found = [(one, piece.whole and _number(piece.text.strip()) == one) for one, _ in numbers]
        money = {one for one, unit in numbers if unit or one.as_tuple().exponent == -2}
    elif shape == "words":
        text = piece.text.strip(" \t\"'.")
        before, _, after = text.rpartition(value)
        if before and not after and not piece.whole:
            label, text = label | name_words(before), value
        found = [(_plain(text, shape), piece.whole)]
        label = label if piece.whole or text == value else name_words(text)
    else:
        texts = _written(piece.text, shape)
        found = [(_plain(one, shape), piece.text.strip() == one) for one in texts]
    for known, whole in found:
        yield _Alike(known, piece.field, label, piece.record, whole and piece.whole, known in money)


@lru_cache(maxsize=16)
def _names_in(texts: tuple[str, ...]) -> frozenset[str]:
    """Return the words of the user that name something: with a capital inside of a sentence, a digit, in quotes."""
    found: set[str] = set()
    for text in texts:
        for quoted in re.findall(r"(?<!\w)[\"“„«‘']([^\"“”„«»‘’']{2,80})[\"”»’'](?!\w)", text):
            found |= _tokens(quoted)
        for match in re.finditer(r"[\w@.+-]*\w", text):
            word = match.group()
            before = text[max(0, match.start() - 3) : match.start()].strip(" ")
            begins = match.start() == 0 or before[-1:] in (".", "!", "?", ":", "\n")
            if any(char.isdigit() for char in word) or "@" in word or "." in word or (word[0].isupper() and not begins):
                found.add(fold(word))
    return frozenset(one for one in found if len(one) > 2) - MONTHS.keys() - WEEKDAYS
