"""Which of a run's readings the user's words call for: what others wrote can make a model read something else.

A reading is called for if whatever says what is read (a name, an id, a query) is made of the user's words, is one that
the tool's own description names, or stands in a list that another tool gave, beside what the user spoke of (where
nothing of that list does and the plan has a use for each of several, wherever); or if what was found speaks of what the
user named, or has an id in common with what was read by the user's own words; or if such a text names it alone and the
plan foresees the tool. The name of a file in a field for something else (a subject, attachments) counts only in the one
record that holds a name of the user's: everybody can send such a record.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from pydantic import JsonValue

from agentorchestra.core.policy import Given, Plan
from agentorchestra.trust.records import Piece, is_only_code, pieces_of, text_in, tokens
from agentorchestra.trust.roles import name_words, says_nothing
from agentorchestra.trust.words import date_of, fold, time_of, words_of

MOST_READ = 500  # characters at the beginning of a result by which it is judged what it speaks of

_SHORTEST = 3
_FEW = 2
_IDENTIFYING = name_words("id uid number mail email mailbox iban account")
_NAMING = name_words("name file filename path id key title document uri url")
_ENDING = re.compile(r"\.[a-z]{1,5}$")


class Readings:
    """The readings of a run beside the user's words and the plan that was made of them.

    Args:
        plan: of the run.
        content: the user's words.
        names: words of the user's that name something.
        results: what the tools gave so far.
    """

    def __init__(
        self, plan: Plan, content: tuple[str, ...], names: frozenset[str], results: Mapping[str, Sequence[Given]]
    ) -> None:
        said = [one.what for use in plan.uses for argument in use.arguments for one in argument.sources]
        self._plan, self._results = plan, results
        self._words = words_of(content)
        self._spoken = topics(" ".join([*content, *said]))
        self._said = topics(" ".join(content))
        self._names = frozenset(one for one in names if re.fullmatch(r"[\w.-]+", one))
        self._lists: dict[str, list[tuple[Given, bool]]] | None = None
        self._near: dict[int, bool] = {}

    def uncalled(self) -> list[tuple[str, Given]]:
        """Return the readings of what is not public that the user's words do not call for."""
        return [
            (name, one)
            for name, given in self._results.items()
            for one in given
            if one.untrusted and one.private and not self.called_for(name, one)
        ]

    def called_for(self, name: str, given: Given) -> bool:
        """Return True if the user's words call for this reading of a tool."""
        values = [*_values(given.arguments)]
        return all(self._is_known(name, value, given) or self._is_in_text(name, value) for value in values)

    def _is_known(self, name: str, value: str, given: Given) -> bool:
        if date_of(value.strip()) or time_of(value.strip()) or self._words.hold(value):
            return True
        words = topics(_ENDING.sub("", value))
        if _ENDING.search(fold(value).strip()) and any(words & topics(one) for one in self._files):
            words = frozenset()  # not the file that was named, though it is called much like it
        described = topics(self._plan.described.get(name, ""))
        if words and all(_speaks_of(one, self._spoken | described) for one in words):
            return True
        key = fold(value).strip()
        # A result of a call that was told the value is not where it is from.
        listed = [one for one in self._listed().get(key, ()) if key not in map(fold, _values(one[0].arguments))]
        if listed:
            of_each = any(not use.times for use in self._plan.uses)  # of a list that has nothing near, all may be meant
            return any(near or (of_each and not self._near[id(one)]) for one, near in listed)
        if bool(self._codes(given) & self._codes_of_named):
            return True
        # Whoever wrote what an id brings wrote the names in it, too.
        return not _is_code(value) and self._speaks_of_names(given)

    def _is_in_text(self, name: str, value: str) -> bool:
        """Return True if a text that the user's words call for names the one record that it is about."""
        planned = any(one.tool == name for use in self._plan.uses for each in use.arguments for one in each.sources)
        # And no file: any may hold what is nobody else's.
        return planned and "." not in value and is_only_code(value, self._texts_called_for, self._words.hold)

    @cached_property
    def _files(self) -> frozenset[str]:
        """Return the names of files, with their endings, in the user's words."""
        return frozenset(one for one in self._names if _ENDING.search(one))

    @cached_property
    def _named(self) -> list[Given]:
        """Return the results of calls that were told words of the user's and nothing else."""
        return [
            one
            for given in self._results.values()
            for one in given
            if one.arguments and all(self._words.hold(value) for value in _values(one.arguments, least=0))
        ]

    @cached_property
    def _codes_of_named(self) -> frozenset[str]:
        return frozenset(code for one in self._named for code in self._codes(one))

    @cached_property
    def _texts_called_for(self) -> list[str]:
        return [
            piece.text
            for name, given in self._results.items()
            for one in given
            if all(self._is_known(name, value, one) for value in _values(one.arguments))
            for piece in pieces_of(one)
            if len(piece.text.split()) > _FEW  # a line of a list is no text about something
        ]

    def _codes(self, given: Given) -> frozenset[str]:
        """Return the ids and mailboxes in fields of a result besides those that the call was told."""
        told = {fold(one).strip() for one in _values(given.arguments)}
        found = {fold(one.text).strip() for one in pieces_of(given) if one.whole and one.field & _IDENTIFYING}
        return frozenset(one for one in found if re.fullmatch(r"\S*[\d@]\S*", one) and len(one) >= _SHORTEST) - told

    def _speaks_of_names(self, given: Given) -> bool:
        beginning = fold(text_in(given.value)[:MOST_READ])
        found = {*re.findall(r"\w+(?:-\w+)*", beginning), *re.findall(r"\w+", beginning)}
        return bool(found & self._names) or speaks_of(beginning, self._said) > 1

    def _listed(self) -> dict[str, list[tuple[Given, bool]]]:
        """Return what stands in lists: for each value, the list and whether its record is near.

        Near is a record that speaks of what the user spoke of.
        """
        if self._lists is None:
            self._lists = defaultdict(list)
            for given in (one for each in self._results.values() for one in each):
                for piece in pieces_of(given):
                    if (key := _listed_value(piece)) is None:
                        continue
                    near = any(_speaks_of(one, self._spoken) for one in _topics_of(piece))
                    if _ENDING.search(key) and piece.fields and not piece.field & _NAMING:
                        near = self._is_only_named(piece)
                    self._lists[key].append((given, near))
                    self._near[id(given)] = self._near.get(id(given), False) or near
        return self._lists

    def _is_only_named(self, piece: Piece) -> bool:
        """Return True if of the records like this one it alone holds a name of the user's."""
        alike = {fold(one.text).strip() for one in self._named_ids if len(one.fields.keys() & piece.fields.keys()) > 1}
        mine = {fold(str(value)).strip() for value in piece.fields.values()}
        return len(alike) == 1 and alike <= mine

    @cached_property
    def _named_ids(self) -> list[Piece]:
        """Return the ids of the records that hold a name of the user's."""
        return [
            piece
            for each in self._results.values()
            for given in each
            for piece in pieces_of(given)
            if piece.whole and "id" in piece.field and tokens(text_in([*piece.fields.values()])) & self._names
        ]


def topics(text: str) -> frozenset[str]:
    """Return the words of a text that say what it is about, each without the ending of its plural."""
    return frozenset(one for one in name_words(fold(text)) if len(one) >= _SHORTEST and not says_nothing(one))


def speaks_of(text: str, spoken: frozenset[str]) -> int:
    """Return how many of these words a text speaks of, also in a longer or a shorter form."""
    found = topics(text)
    return sum(_speaks_of(one, found) for one in spoken)


def _is_code(value: str) -> bool:
    return re.fullmatch(r"[\w-]*\d[\w-]*", value.strip()) is not None


def _speaks_of(word: str, others: frozenset[str]) -> bool:
    return word in others or any(
        len(word) > _SHORTEST and len(one) > _SHORTEST and (one.startswith(word) or word.startswith(one))
        for one in others
    )


def _values(value: JsonValue, least: int = 100) -> Iterator[str]:
    """Yield the texts in arguments, and the numbers from `least` on: what can say which thing is read."""
    if isinstance(value, dict):
        for one in value.values():
            yield from _values(one, least)
    elif isinstance(value, list):
        for one in value:
            yield from _values(one, least)
    elif isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= least:
        yield str(value)


def _listed_value(piece: Piece) -> str | None:
    """Return what a piece of a list gives a name to: the value of a field, the first word of a line."""
    if piece.whole:
        return fold(piece.text).strip()
    found = re.match(r"\W{0,3}([\w./-]*\w)(?=\s)", piece.text)
    return fold(found[1]) if found and not piece.label and any(char.isdigit() for char in found[1]) else None


def _topics_of(piece: Piece) -> frozenset[str]:
    values = [one for one in piece.fields.values() if isinstance(one, str)]
    return topics(" ".join(values) if values else piece.text)
