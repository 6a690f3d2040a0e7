"""The plan: what the user's words call for, stated before anything was read, and whether a call lies inside of it.

A model states the plan from the user's words alone (`runtime/planning.py` asks for it). Its words authorise nothing:
what is compared here is the tool, the number of its calls, and for each argument whether the value stands where the
plan says. A value that decides who gets something (a receiver, an account, an address, an amount) has to be the only
one of its shape there, or the only one of the field that the plan names, or of a record that holds what the user named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import filterfalse
from typing import Any, NamedTuple, get_args

from pydantic import JsonValue, ValidationError

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, Outcome, Tag
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.policy import PLAN, Given, Plan, PlannedSource, PlannedTest, PlannedUse, PolicyView
from agentorchestra.core.reply_text import read_json
from agentorchestra.trust.arguments import KEY, Leaf, harmless
from agentorchestra.trust.arguments import leaves as leaves_in
from agentorchestra.trust.readings import MOST_READ, Readings, speaks_of, topics
from agentorchestra.trust.records import (
    DAY,
    Piece,
    as_number,
    is_only_code,
    is_rounded,
    meeting,
    pieces_of,
    read_formula,
    same,
    text_in,
    tokens,
    worked_out,
)
from agentorchestra.trust.roles import WEEKDAYS, kind_words, kinds_of, name_words, says_nothing
from agentorchestra.trust.shapes import Alike, alike_in, beside, compact, places_in, plain_form, shape_of, written_in
from agentorchestra.trust.words import (
    MONTHS,
    SPELT,
    date_of,
    dates_in,
    days_in,
    fold,
    is_day_of_week,
    is_iban,
    numbers_in,
    time_of,
    times_in,
    words_of,
)

MOST_CHARS = 500_000
"""Characters in the results of one tool that are searched: of more, nothing is taken, or somebody could push out what
makes a value one of several."""

_BRANCH = "/0.plan-"
_QUOTED = re.compile(r"(?<!\w)[\"“„«]([^\"“”„«»]{2,2000})[\"”“»](?!\w)")
_ENDS = ".!? "
_PERCENT = re.compile(
    r"(?<![\d.,])(\d{1,3}(?:[.,]\d{1,2})?)\s?(?:%|per ?cent|prozent|por ciento|pour cent)", re.IGNORECASE
)
_DESTINATIONS = name_words(
    "recipient receiver payee to cc bcc email mail mailbox address iban account user participant attendee member "
    "contact beneficiary whom host url uri link site website endpoint webhook domain path folder directory command cmd "
    "code script program sql channel phone password secret token server remote branch repository "
    "empfänger konto adresse destinataire compte destinatario cuenta dirección"
)
"""Words in the names of arguments that say where something goes, or what is carried out."""

_PLACES = name_words("link url address website site page homepage mail email mailbox contact iban account number")
"""Words by which a plan says that an address is to be passed on."""

_DUE = name_words("pay paid payable due")  # words that say the same of an amount

_WRITTEN = name_words("link url mail email mailbox iban account phone")
"""Words in the names of arguments that take something written in a way of its own, no plain word."""

_ALL = frozenset(
    ["all", "every", "everyone", "everybody", "each", "both", "alle", "alles", "beide", "jeder", "tous", "toutes"]
) | {one for one, number in SPELT.items() if number > 1}
_NO_WORD = re.compile(r"[\d@./]")
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
                                            "kind": {"type": "string", "enum": ["task", "result", "composed", "user"]},
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
    try:
        value = read_json(outcome.response.text)
    except ValueError:
        return "the reply is no JSON"
    if not isinstance(value, dict) or "uses" not in value:
        return 'the reply is no JSON object with the field "uses"'
    try:
        shown = arguments.get("sources", ())  # earlier versions recorded their names alone
        described = shown if isinstance(shown, dict) else dict.fromkeys(shown, "")
        plan = Plan(uses=value["uses"], known=frozenset(map(str, arguments.get("tools", ()))), described=described)
        for one in _all_sources(plan):
            if one.formula:
                read_formula(one.formula)
    except ValidationError as exc:
        first = exc.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (ValueError, RecursionError) as exc:
        return str(exc)
    unknown = sorted({one.tool for one in plan.uses} - plan.known - plan.described.keys())
    return f"there is no tool {', '.join(unknown)}; name tools of the list" if unknown else plan


# -- a call and the plan ---------------------------------------------------------------------------------------------


class Doubts(NamedTuple):
    """What of a call lies outside of the plan: arguments with what is wrong with each, or the call itself."""

    arguments: dict[str, str]
    call: str = ""


def outside(
    plan: Plan,
    effect: Effect,
    leaves: Sequence[Leaf],  # the values of the call
    mine: frozenset[str],  # paths of the values that are the user's
    view: PolicyView,
    trusted: frozenset[str] = frozenset(),  # paths of the values that a trusted field holds
) -> Doubts:
    """Return what of a call lies outside of the plan."""
    uses = [one for one in plan.uses if one.tool == effect.called]
    if not uses:
        expected = ", ".join(dict.fromkeys(one.tool for one in plan.uses)) or "no tool with effects"
        return Doubts({}, f"your words do not call for it (they call for: {expected})")
    most = sum(one.times for one in uses)
    if all(one.times for one in uses) and view.acted(effect.called) >= most:
        often = "once" if most == 1 else f"{most} times"
        return Doubts({}, f"your words call for it {often}, and that was done")
    call = _Call(plan, effect, leaves, mine, view, trusted)
    if all(call.was_done(use) for use in uses):
        return Doubts({}, "your words call for it once for each, and for this one it was done")
    found = [Doubts(call.doubts(use)) for use in uses]
    return min(found, key=lambda one: len(one.arguments))


class _Call:
    """One call that is compared with the uses of its tool in the plan."""

    def __init__(
        self,
        plan: Plan,
        effect: Effect,
        leaves: Sequence[Leaf],
        mine: frozenset[str],
        view: PolicyView,
        trusted: frozenset[str],
    ) -> None:
        self.effect, self.leaves, self.view = effect, leaves, view
        self.acting = frozenset(one.tool for one in plan.uses)
        self.words = words_of(view.user_content)
        self.influenced = effect.lowest_trust is Trust.UNTRUSTED
        # What code can tell only in part (facts, sums, which of several) is then told by whoever looks.
        self.looked = view.second_look
        self.mine, self.trusted = mine, trusted
        self._read_once: dict[tuple[str, tuple[PlannedTest, ...]], list[Piece]] = {}
        self.chosen = [one for one in leaves if not (one.default or one.element)]
        self.free = [one for one in self.chosen if one.path not in mine | trusted]
        self.plan = plan

    def was_done(self, use: PlannedUse) -> bool:
        """Return True if a use for each of several was made of the same one before."""
        if use.times:
            return False
        of_results = {
            one.path
            for one in self.leaves
            if (kinds := {source.kind for source in sources_of(use, one)})
            and "result" in kinds
            and "composed" not in kinds
        }
        now = {one.path: one.value for one in self.leaves if not of_results or one.path in of_results}
        before = [
            {one.path: one.value for one in leaves_in(given.arguments)}
            for given in self.view.results().get(self.effect.called, ())
        ]
        return any(all(one.get(path) == value for path, value in now.items()) for one in before)

    def doubts(self, use: PlannedUse) -> dict[str, str]:
        """Return the arguments that are not from where the use says, with what is wrong."""
        found = {}
        for leaf in self.leaves:
            sources = sources_of(use, leaf)
            if leaf.element or (leaf.default and not (leaf.choice and any(one.kind == "task" for one in sources))):
                continue
            if leaf.path in self.mine and self._may_take(leaf, sources, use):
                if self._names_another(leaf, sources) or self._is_piece(leaf, sources):
                    found[leaf.path] = f"is not from {expected_of(sources)}"
                continue
            if leaf.path in self.trusted and (not sources or self._is_of_named(leaf, sources)):
                continue
            if not self.influenced and not self._gives_away(leaf) and _may_be_worded(sources):
                continue  # nothing from outside can have made the model write it
            if not any(self._fits(leaf, source, use) for source in sources) or self._contradicted(leaf, sources):
                found[leaf.path] = self._after(leaf, sources, use) or f"is not from {expected_of(sources)}"
        return found or self._mixed(use)

    def _mixed(self, use: PlannedUse) -> dict[str, str]:
        """Return the values that the plan takes from one record of a list and that stand together in none."""
        of_lists: dict[tuple[str, tuple[PlannedTest, ...]], list[tuple[Leaf, str]]] = {}
        for leaf in self.free:
            sources = sources_of(use, leaf)
            if "[" not in leaf.path and len(sources) == 1 and sources[0].kind == "result":
                of_lists.setdefault((sources[0].tool, sources[0].which), []).append((leaf, sources[0].where))
        for (tool, which), wanted in of_lists.items():
            leaves = [leaf for leaf, _ in wanted]
            if len({where for _, where in wanted}) < len(wanted):
                continue  # what stands in one field is of several records
            pieces = [one for one in self._pieces(PlannedSource(kind="result", tool=tool, which=which)) if one.fields]
            held = [{id(leaf) for leaf in leaves if _holds(one.fields, leaf.value)} for one in pieces]
            known = set().union(*held)
            if known and known not in held:
                listed = [leaf.path for leaf in leaves if id(leaf) in known]
                return dict.fromkeys(listed, f"belongs to another record of {harmless(tool, 60)} than the others")
        return {}

    def _after(self, leaf: Leaf, sources: Sequence[PlannedSource], use: PlannedUse) -> str:
        """Return what was read before that makes a text doubtful which else could be the model's own."""
        own = [one for one in sources if one.kind == "composed"]
        read = self._doubtful(leaf, use)
        if not read or not any(self._may_be_own(leaf, one, use) for one in own):
            return ""
        return f"was written after reading {', '.join(read[:3])}, which your words do not call for"

    def _is_of_named(self, leaf: Leaf, sources: Sequence[PlannedSource]) -> bool:
        """Return True if an id that a trusted field holds is the one of what the plan says by a name of the user's.

        Whatever the tool: it stands in a field that is named as the argument is, in a record that holds this name, and
        no other one does.
        """
        anchors = frozenset(one for source in sources if source.kind == "result" for one in self._meant(source))
        wanted = name_words(leaf.path)
        if not anchors or not identifies(leaf) or not wanted - _IDENTIFIERS:
            return False
        uncalled = {id(one) for _, one in self.uncalled}
        found = {
            fold(piece.text).strip()
            for given in self.view.results().values()
            for one in given
            if id(one) not in uncalled
            for piece in pieces_of(one)
            if piece.whole and piece.field == wanted and anchors & piece.record
        }
        return found == {fold(str(leaf.value)).strip()}

    def _is_piece(self, leaf: Leaf, sources: Sequence[PlannedSource]) -> bool:
        """Return True for a piece of what the user gave in quotation marks and the plan names as a whole."""
        if not isinstance(leaf.value, str) or any(one.kind != "task" for one in sources):
            return False
        value = fold(leaf.value).strip()
        quotes = [fold(one).strip() for text in self.view.user_content for one in _QUOTED.findall(text)]
        named = [one for source in sources for one in quotes if value in one and one in fold(source.what)]
        return bool(named) and all(one.strip(_ENDS) != value.strip(_ENDS) for one in named)

    def _names_another(self, leaf: Leaf, sources: Sequence[PlannedSource]) -> bool:
        """Return True if the plan says that another value in the user's words is meant for an argument."""
        if not sources or any(one.kind != "task" for one in sources):
            return False
        shape = shape_of(leaf.value, amount=as_number(leaf.value) is not None)
        text = str(leaf.value).strip()
        said = " ".join(one.what for one in sources)
        for whole, found in ((date_of(text), dates_in(said)), (time_of(text), times_in(said))):
            if whole is not None and (others := {*found}):
                return whole not in others
        if shape == "words" and is_destination(leaf):
            return bool(places_in(said))
        named: set[str | Decimal] = set()
        for one in sources:
            if shape == "number":
                named |= {number for number, _ in numbers_in(one.what) if self.words.hold(float(number))}
            elif shape != "words":
                named |= {plain_form(text, shape) for text in written_in(one.what, shape)}
        return bool(named) and plain_form(leaf.value, shape) not in named

    def _may_take(self, leaf: Leaf, sources: Sequence[PlannedSource], use: PlannedUse) -> bool:
        """Return True if a value of the user's can be meant for an argument although the plan does not name it there.

        A mailbox, a link, a phone number or an account is no plain word, and what the plan names for another argument
        alone is not for one that it says nothing of.
        """
        if _is_named_in(leaf, sources):
            return True
        if name_words(_name(leaf)) & _WRITTEN and not identifies(leaf) and not _NO_WORD.search(str(leaf.value)):
            return False
        others = [each for one in use.arguments if one.sources != sources for each in one.sources]
        return bool(sources) or not _is_named_in(leaf, others)

    def _gives_away(self, leaf: Leaf) -> bool:
        """Return True for a value that decides who gets something, how much, or what is acted on."""
        return is_destination(leaf) or identifies(leaf) or self._is_amount(leaf)

    def _fits(self, leaf: Leaf, source: PlannedSource, use: PlannedUse) -> bool:
        if source.kind == "user":
            return False
        if leaf.choice:  # the schema says what there is to choose from
            return source.kind != "task" or _may_choose(leaf, source.what)
        if source.kind == "task":
            return self._is_said(leaf, source)
        return self._given(leaf, source, use) if source.kind == "result" else self._may_be_composed(leaf, source, use)

    def _is_said(self, leaf: Leaf, source: PlannedSource) -> bool:
        """Return True if a value stands in the user's words or in the plan's; where much hangs on it, in both.

        The plan was stated from the user's words alone, so what it names beside an argument is meant for that argument.
        """
        if isinstance(leaf.value, bool) or self._names_another(leaf, (source,)) or self._is_piece(leaf, (source,)):
            return False
        if self.looked and _is_when(leaf):
            return True  # counted from a day of the user's: "on Thursday"
        own = (*self.view.user_content, *_words_of_tool(self.effect))
        said, named = (_stands(leaf.value, texts) for texts in (own, (source.what,)))
        return said and named if self._gives_away(leaf) else said or named

    # -- composed --

    def _may_be_composed(self, leaf: Leaf, source: PlannedSource, use: PlannedUse) -> bool:
        return self._may_be_own(leaf, source, use) and not self._doubtful(leaf, use)

    def _may_be_own(self, leaf: Leaf, source: PlannedSource, use: PlannedUse) -> bool:
        reads = self.effect.tags == {Tag.READ, Tag.NETWORK}  # what goes along with a read tells its host something
        if reads or is_destination(leaf) or identifies(leaf) or leaf.path.endswith(KEY):
            return False
        if "currency" in kinds_of(leaf, self.effect):
            return False  # it says how much an amount is
        if as_number(leaf.value) is not None:
            if source.tool and not self._results(source):
                return False  # worked out from nothing that was read
            if (right := self._is_worked_out(leaf, use)) is not None:
                return right
        if self._is_amount(leaf):
            return self.looked or self._is_covered(leaf, source, use)
        return not isinstance(leaf.value, str) or self._leads_nowhere(leaf, use)

    def _doubtful(self, leaf: Leaf, use: PlannedUse) -> list[str]:
        """Return the readings that a text may hold something of although the user's words do not call for it."""
        text = leaf.value.strip() if isinstance(leaf.value, str) else ""
        if not text or date_of(text) or time_of(text) or DAY.fullmatch(text):
            return []
        found = [_shown(name, one) for name, one in self.uncalled]
        if self._goes_elsewhere(use):
            found += self._quoted(text, use)
        return found

    def _quoted(self, text: str, use: PlannedUse) -> list[str]:
        """Return the readings of tools that the plan does not name, where a text has a word of theirs alone."""
        results, known = self.view.results(), _said_in(" ".join(self.view.user_content))
        named = _named_tools(use) | self.acting
        for one in named & results.keys():
            known |= _said_in(" ".join(text_in(given.value) for given in results[one]))
        words = _said_in(text)
        return [
            _shown(name, one)
            for name, given in results.items()
            if name not in named
            for one in given
            if one.untrusted and (words - known) & _said_in(text_in(one.value))
        ]

    def _is_worked_out(self, leaf: Leaf, use: PlannedUse) -> bool | None:
        """Return whether a number is what the plan's formula gives for a record that is meant; None without any."""
        number = as_number(leaf.value)
        for source in sources_of(use, leaf):
            records = [*{id(one.fields): one.fields for one in self._pieces(source) if one.fields}.values()]
            if number is None or not source.formula or not records:
                continue
            others = [one for one in self.leaves if one.path != leaf.path and isinstance(one.value, str)]
            acted_on = [
                one for one in records if any(same(each.value, str(value)) for each in others for value in one.values())
            ]
            values = worked_out(source.formula, acted_on or records, of_all=records)
            if values:
                return any(is_rounded(number, one) for one in values)
        return None

    def _is_covered(self, leaf: Leaf, source: PlannedSource, use: PlannedUse) -> bool:
        """Return True if an amount that was worked out is no larger than one that the user named.

        A percentage of the user's may be added to it. Where it goes to somebody whom the user named, one in the
        results that the plan names will do.
        """
        number = as_number(leaf.value)
        if number is None or number < 0:
            return False
        named = not self._goes_elsewhere(use)
        argument = kind_words(leaf, self.effect)
        found = [one for piece in self._pieces(source) for one in alike_in(piece, "number", "")] if named else []
        amounts = [one.value for one in found if one.money or one.whole or one.label & argument]
        said = [each for text in self.view.user_content for each in numbers_in(text)]
        known = [*amounts, *(one for one, unit in said if unit or not 1900 <= one < 2100)]
        more = max(
            (Decimal(one.replace(",", ".")) for text in self.view.user_content for one in _PERCENT.findall(text)),
            default=0,
        )
        most = max((one for one in known if isinstance(one, Decimal)), default=Decimal(-1)) * (100 + more) / 100
        return number <= most

    def _leads_nowhere(self, leaf: Leaf, use: PlannedUse) -> bool:
        """Return True if what leads elsewhere in a text is the user's, or what the plan says is to be passed on."""
        passed = [one for one in sources_of(use, leaf) if one.tool and (self.looked or _names_place(one))]
        return all(
            self.words.hold(place)
            or any(
                self._stands_in(Leaf(leaf.path, place), one)
                if self.looked
                else self._is_the_one(Leaf(leaf.path, place), one, use, self._pieces(one))
                for one in passed
            )
            for place in places_in(str(leaf.value))
        )

    def _goes_elsewhere(self, use: PlannedUse) -> bool:
        """Return True if the call goes to where the user did not say, by an address or by the name that has it."""
        return any(is_destination(one) and not self._is_named(one, use) for one in self.free)

    def _is_named(self, leaf: Leaf, use: PlannedUse) -> bool:
        """Return True if a value stands beside a name of the user's wherever the plan says that it is from.

        In the text of a record (a mail), beside it are the other fields.
        """
        sources = [one for one in sources_of(use, leaf) if one.kind == "result"]
        found = [(self._anchors(one), piece) for one in sources for piece in self._pieces(one)]
        near = [anchors & piece.record for anchors, piece in found if same(leaf.value, piece.text)]
        near += [
            anchors & tokens(text_in([one for one in piece.fields.values() if piece.text not in str(one)]))
            for anchors, piece in found
            if piece.fields and not same(leaf.value, piece.text) and str(leaf.value) in piece.text
        ]
        return bool(near) and all(near)

    # -- from a result --

    def _pieces(self, source: PlannedSource) -> list[Piece]:
        """Return the pieces of what the tool gave, those of the records that the plan means."""
        key = (source.tool, source.which)
        if key not in self._read_once:
            pieces = [piece for one in self._results(source) for piece in pieces_of(one)]
            self._read_once[key] = meeting(pieces, source.which) if source.which else pieces
        return self._read_once[key]

    def _results(self, source: PlannedSource) -> Sequence[Given]:
        uncalled = {id(one) for _, one in self.uncalled}
        results = [one for one in self.view.results().get(source.tool, ()) if id(one) not in uncalled]
        return results if sum(len(text_in(one.value)) for one in results) <= MOST_CHARS else ()

    def _given(self, leaf: Leaf, source: PlannedSource, use: PlannedUse) -> bool:
        value = leaf.value
        if use.times == 1 and not _wants_several(leaf, source) and self._may_mean_unread(source):
            return False
        if self._is_place(leaf) or (self._is_amount(leaf) and not self.looked):
            return self._is_the_one(leaf, source, use, self._pieces(source))
        if self.looked and _is_when(leaf) and self._results(source):
            return True  # written otherwise: "from 2 to 4 pm"
        if self.looked and not identifies(leaf) and self._stands_in(leaf, source):
            return not isinstance(value, str) or self._leads_nowhere(leaf, use)
        found = [one for one in self._pieces(source) if one.whole and same(value, one.text)]
        if self.looked and source.which and found:
            return True
        if identifies(leaf) or any(one.fields for one in found):
            return self._is_meant(leaf, source, use, found) or self._is_the_only_code(leaf, source)
        texts = self._texts(source, use)
        if isinstance(value, str) and not self._leads_nowhere(leaf, use):
            # What it links to is judged, unless the whole of what was read is passed on.
            return any(fold(value).strip() == fold(text).strip() for text in texts)
        return any(_stands(value, (text,)) for text in texts)

    def _is_place(self, leaf: Leaf) -> bool:
        """Return True for what says where something goes, or what is carried out."""
        return is_destination(leaf) and not (self.looked and _is_detail(leaf))

    def _stands_in(self, leaf: Leaf, source: PlannedSource) -> bool:
        """Return True if a value stands in a result of the tool, in one that the plan means if it has conditions."""
        texts = {text_in(dict(one.fields)) if one.fields else one.text for one in self._pieces(source)}
        return any(str(leaf.value) in text or _stands(leaf.value, (text,)) for text in texts)

    def _texts(self, source: PlannedSource, use: PlannedUse) -> list[str]:
        """Return the results of a tool as texts; where the plan has conditions, the one record that meets them."""
        if not source.which:
            return [text_in(one.value) for one in self._results(source)]
        records = [*{text_in(dict(one.fields)): one.fields for one in self._pieces(source)}.values()]
        if len(records) > 1 and use.times:
            return []
        return ["\n".join(text_in(value) for value in one.values()) for one in records]

    def _may_mean_unread(self, source: PlannedSource) -> bool:
        """Return True if a list has, besides a record that was read, another one that meets the plan's conditions."""
        if not source.which:
            return False
        read, uncalled = _ids_in(self._pieces(source)), {id(one) for _, one in self.uncalled}
        for name, given in self.view.results().items():
            pieces = [
                piece for one in given if name != source.tool and id(one) not in uncalled for piece in pieces_of(one)
            ]
            there = {field for piece in pieces for field in piece.fields}
            known = tuple(one for one in source.which if one.field.rpartition(".")[2] in there)
            listed = _ids_in(meeting(pieces, known)) if known else set()
            if listed & read and listed - read:
                return True
        return False

    def _is_meant(self, leaf: Leaf, source: PlannedSource, use: PlannedUse, found: Sequence[Piece]) -> bool:
        """Return True if the records with this value are meant, of all that have another one in its field.

        Those beside what the user named; of several the one that has most of the words of the plan, and of any number
        those that have some of them, if any has.
        """
        fields = {one.field for one in found}
        pool = [one for one in self._pieces(source) if one.field in fields and one.whole]
        named = all(one.record & self._ids_of_named for one in pool)
        for anchors in (self._anchors(source), self._ids_of_named):
            if near := beside(pool, anchors):
                pool, named = near, True
                break
        wanted = self._topics(leaf, source)
        scores = self._scores(pool, wanted, read=False)
        mine = next((value for value in scores if same(leaf.value, value)), None)
        if mine is None:
            return False
        if len(scores) == 1 or (source.which and not use.times) or (named and len(scores) <= use.times):
            return True
        if not use.times or "[" in leaf.path:
            return scores[mine] > 0 or max(scores.values()) == 0
        # What was read of the records tells them apart where their fields do not.
        for read in (False, True):
            scores = self._scores(pool, wanted, read=read)
            if scores[mine] > 0 and sum(score >= scores[mine] for score in scores.values()) <= use.times:
                return True
            if max(scores.values()) > scores[mine]:
                return False
        return False

    def _scores(self, pool: Sequence[Piece], wanted: frozenset[str], *, read: bool) -> dict[str, int]:
        """Return how many of the wanted words the record of each value has; with `read`, also what was read by it."""
        found: dict[str, int] = {}
        for one in pool:
            value = fold(one.text).strip()
            texts = [text_in(dict(one.fields)) if one.fields else one.text]
            if read:
                texts += [
                    text_in(given.value)[:MOST_READ]
                    for each in self.view.results().values()
                    for given in each
                    if any(same(one.text, str(told)) for told in given.arguments.values())
                ]
            found[value] = max(found.get(value, 0), speaks_of(" ".join(texts), wanted))
        return found

    def _topics(self, leaf: Leaf, source: PlannedSource) -> frozenset[str]:
        """Return the words of the user that the plan has for a value, besides those that name its kind."""
        kind = (
            name_words(leaf.path) | name_words(source.where) | name_words(source.tool) | name_words(self.effect.called)
        )
        said = topics(" ".join(self.view.user_content))
        return frozenset(one for one in topics(source.what) - kind if speaks_of(one, said))

    def _is_the_one(self, leaf: Leaf, source: PlannedSource, use: PlannedUse, pieces: Sequence[Piece]) -> bool:
        """Return True if no other value of its kind could have been meant."""
        wanted = shape_of(leaf.value, amount=self._is_amount(leaf))
        alike = [one for piece in pieces for one in alike_in(piece, wanted, str(leaf.value))]
        argument = kind_words(leaf, self.effect)
        together = {plain_form(one.value, wanted) for one in self.leaves if _top(one.path) == _top(leaf.path)}
        mine = plain_form(leaf.value, wanted)
        if all(one.value != mine for one in alike):
            return False
        for pool in self._narrowed(alike, source, argument, labels=wanted in ("number", "words")):
            values = {one.value for one in pool}
            if values == {mine}:
                return True
            if mine in values and all(one.whole for one in pool) and len({one.field for one in pool}) == 1:
                one_list = "[" in leaf.path and len({one.record for one in pool}) == 1
                every = values <= together and _wants_several(leaf, source)
                if one_list or every or use.times != 1:
                    return True
            if mine not in values:
                return False
        return False

    def _contradicted(self, leaf: Leaf, sources: Sequence[PlannedSource]) -> bool:
        """Return True if another result that the plan names for an argument holds another value, and no second one."""
        wanted = shape_of(leaf.value, amount=self._is_amount(leaf))
        decides = self._is_place(leaf) or (wanted == "number" and not self.looked)
        if wanted == "words" or "[" in leaf.path or not decides:
            return False
        argument, mine = kind_words(leaf, self.effect), plain_form(leaf.value, wanted)
        for source in sources:
            if source.kind != "result":
                continue
            alike = [one for piece in self._pieces(source) for one in alike_in(piece, wanted, str(leaf.value))]
            *_, last = self._narrowed(alike, source, argument, labels=wanted == "number")
            if len({one.value for one in last}) == 1 and last[0].value != mine:
                return True
        return False

    def _narrowed(
        self, alike: list[Alike], source: PlannedSource, argument: frozenset[str], *, labels: bool
    ) -> Iterator[list[Alike]]:
        """Yield ever fewer of the values: all, those of the field that is named, those beside what the user named."""
        yield alike
        if any(one.money for one in alike):
            alike = [one for one in alike if one.money or one.whole]
        where, what = name_words(source.where), frozenset(filterfalse(says_nothing, name_words(source.what)))
        if what & _DUE:
            what |= _DUE
        for words in (where, what, argument):
            # Whoever writes a text can write its labels: there those of the argument count besides what the plan says.
            named = [one for one in alike if one.field & words or (labels and one.label & (words | argument))]
            if named:
                alike = named
                break
        yield alike
        names = _names_in(self.view.user_content)
        for words in (names, self._meant(source)):
            if anchored := beside(alike, words):
                yield anchored

    def _is_the_only_code(self, leaf: Leaf, source: PlannedSource) -> bool:
        """Return True if a text, which has no fields, holds no other code written like this id but the user's own."""
        if source.which:
            return False
        texts = [one.text for one in self._pieces(source) if not one.fields]
        return is_only_code(str(leaf.value), texts, self.words.hold)

    @cached_property
    def uncalled(self) -> list[tuple[str, Given]]:
        """The readings that the user's words do not call for."""
        content = self.view.user_content
        return Readings(self.plan, content, _names_in(content), self.view.results()).uncalled()

    @cached_property
    def _ids_of_named(self) -> frozenset[str]:
        """Return the ids of the records, in whatever result, that hold a name of the user's."""
        names = _names_in(self.view.user_content)
        return frozenset(
            fold(piece.text).strip()
            for given in self.view.results().values()
            for one in given
            for piece in pieces_of(one)
            if piece.whole and piece.fields and piece.field & _IDENTIFIERS and names & piece.record
        )

    def _anchors(self, source: PlannedSource) -> frozenset[str]:
        """Return the names of the user's that the plan means, or all of them where it says none."""
        return self._meant(source) or _names_in(self.view.user_content)

    def _meant(self, source: PlannedSource) -> frozenset[str]:
        """Return the names of the user's that the plan has too, and what the plan alone writes as a name."""
        names, words = _names_in(self.view.user_content), tokens(" ".join(self.view.user_content))
        return (names & tokens(source.what)) | (_names_in((f"of {source.what}",)) & words)

    def _is_amount(self, leaf: Leaf) -> bool:
        if isinstance(leaf.value, bool) or as_number(leaf.value) is None:
            return False
        kinds = kinds_of(leaf, self.effect)
        return "amount" in kinds or (Tag.SPEND in self.effect.tags and not kinds and not identifies(leaf))


def expected_of(sources: Iterable[PlannedSource], most: int = 80) -> str:
    """Return in words where the plan says that a value comes from, each said in so many characters at most."""
    said = []
    for one in sources:
        what = f" ({harmless(one.what, most)})" if one.what else ""
        if one.kind == "result":
            field = f", {harmless(one.where, 40)}" if one.where else ""
            said.append(f"the result of {harmless(one.tool, 60)}{field}{what}")
        else:
            said.append({"task": "your words", "composed": "the model's own words", "user": "you"}[one.kind] + what)
    return " or ".join(said) or "nothing"


# -- what an argument is ---------------------------------------------------------------------------------------------


def is_destination(leaf: Leaf) -> bool:
    text = leaf.value.strip() if isinstance(leaf.value, str) else ""
    if isinstance(leaf.value, bool) or (text and (date_of(text) or time_of(text))):
        return False
    named = not identifies(leaf) and bool(name_words(_name(leaf)) & _DESTINATIONS)
    return named or shape_of(text) in ("mailbox", "link", "path", "account")


def identifies(leaf: Leaf) -> bool:
    return not name_words(_name(leaf)).isdisjoint(_IDENTIFIERS)


def _is_detail(leaf: Leaf) -> bool:
    """Return True for what only looks like somewhere to send to: the address of a house, a number by another name."""
    names, text = name_words(_name(leaf)), str(leaf.value)
    if shape_of(text) == "account":
        return not (names & _DESTINATIONS or is_iban(compact(text)))
    return "address" in names and shape_of(text) == "words" and any(map(str.isdigit, text))


def _is_when(leaf: Leaf) -> bool:
    text = leaf.value.strip() if isinstance(leaf.value, str) else ""
    return bool(text and (date_of(text) or time_of(text) or DAY.fullmatch(text)))


def _name(leaf: Leaf) -> str:
    return leaf.path.removesuffix(KEY)


def _top(path: str) -> str:
    return re.split(r"[.\[ ]", path, maxsplit=1)[0]


def sources_of(use: PlannedUse, leaf: Leaf) -> tuple[PlannedSource, ...]:
    """Return the sources of the argument, or of the part of it, that the plan names."""
    path = re.sub(r"\[\d+\]| \(key\)", "", leaf.path)
    named = {one.argument: one.sources for one in use.arguments}
    while path:
        if path in named:
            return named[path]
        path = path.rpartition(".")[0]
    return ()


def _is_named_in(leaf: Leaf, sources: Iterable[PlannedSource]) -> bool:
    """Return True if a plan names a value of the user's itself."""
    return any(one.kind == "task" and _stands(leaf.value, (one.what,)) for one in sources)


def _wants_several(leaf: Leaf, source: PlannedSource) -> bool:
    """Return True if a plan says that several of what an argument takes are wanted: all, two, "addresses"."""
    words = {fold(one) for one in re.findall(r"[^\W_]+", f"{source.where} {source.what}")}
    kinds = name_words(_name(leaf)) | name_words(source.where) | _DESTINATIONS | _IDENTIFIERS
    plural = (one for one in words if one.endswith("s") and not one.endswith("ss") and name_words(one) & kinds)
    return bool(words & _ALL or any(plural) or any(one.isdecimal() and int(one) > 1 for one in words))


def _may_be_worded(sources: Sequence[PlannedSource]) -> bool:
    return not sources or any(one.kind == "composed" for one in sources)


def _may_choose(leaf: Leaf, what: str) -> bool:
    """Return True unless a plan names another one of the choices."""
    said = tokens(what)
    named = [one for one in leaf.choices if tokens(one) and tokens(one) <= said]
    return not named or str(leaf.value).lower() in map(fold, named)


def _all_sources(plan: Plan) -> Iterator[PlannedSource]:
    return (source for use in plan.uses for argument in use.arguments for source in argument.sources)


def _said_in(text: str) -> frozenset[str]:
    """Return the words, numbers and codes of a text by which it can be told where it is from."""
    return topics(text) | frozenset(
        one for one in tokens(text) if any(map(str.isdigit, one)) and not DAY.fullmatch(one)
    )


def _holds(record: Mapping[str, JsonValue], value: str | int | float) -> bool:
    return any(same(value, str(one)) for one in record.values() if isinstance(one, str | int | float))


def _ids_in(pieces: Iterable[Piece]) -> set[str]:
    return {fold(one.text).strip() for one in pieces if one.whole and one.fields and one.field & _IDENTIFIERS}


def _shown(name: str, given: Given) -> str:
    """Return a reading as a question names it."""
    values = ", ".join(harmless(str(one), 60) for one in given.arguments.values())
    return f"{harmless(name, 60)}({values})"


def _words_of_tool(effect: Effect) -> tuple[str, ...]:
    """Return what a tool says of its arguments, in its author's words."""
    declared = effect.declared
    if declared is None or declared.trust is Trust.UNTRUSTED:
        return ()
    described = (one.get("description") for one in declared.parameters.get("properties", {}).values())
    return tuple(one for one in described if isinstance(one, str))


def _names_place(source: PlannedSource) -> bool:
    said = name_words(source.what) - name_words(source.tool)  # what stands in a mail is no mailbox
    return bool((name_words(source.where) | said) & _PLACES)


def _named_tools(use: PlannedUse) -> frozenset[str]:
    return frozenset(source.tool for one in use.arguments for source in one.sources if source.tool)


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
        known = known or (day is not None and any(is_day_of_week(day, one) for one in texts))
        return known and (moment[2] is None or words.hold(moment[2]))
    stem, dot, suffix = text.rpartition(".")
    return bool(dot) and len(stem) > 2 and suffix.isalnum() and len(suffix) < 5 and words.hold(stem)


# -- what stands in results ------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _names_in(texts: tuple[str, ...]) -> frozenset[str]:
    """Return the words of the user that name something: with a capital inside of a sentence, a digit, in quotes."""
    found: set[str] = set()
    for text in texts:
        for quoted in re.findall(r"(?<!\w)[\"“„«‘']([^\"“”„«»‘’']{2,80})[\"”»’'](?!\w)", text):
            found |= tokens(quoted)
        for match in re.finditer(r"[\w@.+-]*\w", text):
            word = match.group()
            before = text[max(0, match.start() - 3) : match.start()].strip(" ")
            begins = match.start() == 0 or before[-1:] in (".", "!", "?", ":", "\n")
            begins = begins and (says_nothing(fold(word)) or not re.match(r"['’]s\b|,", text[match.end() :]))
            if any(char.isdigit() for char in word) or "@" in word or "." in word or (word[0].isupper() and not begins):
                found.add(fold(word))
    return frozenset(one for one in found if len(one) > 2 and not says_nothing(one)) - MONTHS.keys() - WEEKDAYS
