"""What a branch of a run has seen: how far that may be trusted, and where a value may have come from.

Every outcome of a branch is in view of whatever it does next, whoever builds the effect: an agent's loop names its
sources itself, the code of a tool or of a system need not, and is judged all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic import JsonValue

from agentorchestra.core.content import Block, TextBlock, Trust, lowest
from agentorchestra.core.effects import OF_MODELS, Effect, EffectKind, Mode, Outcome, Provenance, Tag, provenance_of
from agentorchestra.core.messages import ModelRequest
from agentorchestra.trust.addresses import links_in
from agentorchestra.trust.arguments import Leaf, harmless, leaves_of, shown_text
from agentorchestra.trust.words import fold, stands_in, words_of

if TYPE_CHECKING:
    from agentorchestra.core.mail import Mail

MOST_PLACES = 4  # places that a question names for one argument
MOST_SHOWN = 200  # arguments whose origin is looked for
MOST_CHARS = 2_000_000  # characters of what was seen that are searched; the newest first
EACH = "*"  # stands in the path of a trusted field for every member of a list or a dictionary

_KINDS: dict[EffectKind, str] = {
    EffectKind.INVOKE_AGENT: "agent",
    EffectKind.JOIN: "agent",
    EffectKind.INVOKE_ACTION: "environment",
    EffectKind.ASK_HUMAN: "human",
    EffectKind.RECEIVE: "human",
    EffectKind.TRANSCRIBE: "file",
    EffectKind.READ_MEMORY: "memory",
    EffectKind.WAIT: "mail",
}
_MERGED = frozenset(
    {
        EffectKind.INVOKE_TOOL,
        EffectKind.INVOKE_ACTION,
        EffectKind.RUN_CODE,
        EffectKind.WRITE_MEMORY,
        EffectKind.INVOKE_AGENT,
        EffectKind.SPAWN,
        EffectKind.SEND_MESSAGE,
        EffectKind.ASK_HUMAN,
    }
)


class Piece(NamedTuple):
    """Something that was seen: its origin in words, its trust, its text, and its place where that is known."""

    label: str
    trust: Trust
    text: str
    place: str = ""


class SeenProvenance:
    """What one branch has seen: `provenance` when it began; `above` is its caller's, `actor` whose branch it is."""

    def __init__(
        self, provenance: tuple[Provenance, ...] = (), above: SeenProvenance | None = None, actor: str = ""
    ) -> None:
        self._told = frozenset(provenance)
        self._actor = actor
        self.trust = lowest(*(one.trust for one in provenance))  # the lowest of anything seen
        self._above = above
        self._sources: dict[Provenance, None] = dict.fromkeys(provenance)
        self._results: list[tuple[Effect, Outcome]] = []
        self._mail: list[Mail] = []
        self._request: ModelRequest | None = None

    @property
    def refs(self) -> frozenset[str]:
        """Return the names of its sources, what it was told of at its beginning among them."""
        return frozenset(one.ref for one in self._sources)

    @property
    def results(self) -> Sequence[tuple[Effect, Outcome]]:
        """Return what its effects came to, those of models left out."""
        return self._results

    @property
    def shown(self) -> Sequence[Block]:
        """Return the blocks of the last request to a model besides the system prompt and what models said."""
        messages = self._request.messages if self._request is not None else ()
        return [block for one in messages if one.role not in ("system", "assistant") for block in one.content]

    def take(self, effect: Effect, outcome: Outcome, mail: tuple[Mail, ...] = ()) -> None:
        """Add an outcome that came back."""
        self.trust = lowest(self.trust, outcome.trust)
        if effect.kind in OF_MODELS:
            self._request = effect.request or self._request
            self.add(effect.provenance)
            return
        self._mail += mail
        self._results.append((effect, outcome))
        name = ", ".join(sorted({one.sender for one in mail})) or effect.name
        named = outcome.blocks() if isinstance(outcome.value, dict) and "$blocks" in outcome.value else ()
        if named and not mail and all(block.source is not None for block in named):
            self._sources |= dict.fromkeys(provenance_of(named))  # each piece says where it is from
            return
        self._sources.setdefault(Provenance(kind=_KINDS.get(effect.kind, "tool"), ref=name, trust=outcome.trust))

    def add(self, provenance: tuple[Provenance, ...]) -> None:
        """Add what else is in view of the branch."""
        self.trust = lowest(self.trust, *(one.trust for one in provenance))
        self._sources |= dict.fromkeys(provenance)

    def adopt(self, other: SeenProvenance) -> None:
        """Add what another branch saw."""
        self.add(tuple(other._sources))
        self.trust = lowest(self.trust, other.trust)
        self._results += other._results
        self._mail += other._mail
        self._request = other._request or self._request

    def merged_into(self, effect: Effect) -> Effect:
        """Return the effect with what its branch has seen in its provenance, where that is trusted less."""
        if self.trust is Trust.SYSTEM or effect.kind not in _MERGED:
            return effect
        # Whether a site may be sent something depends on every source that was in view, not on the least of them.
        # So it is with an action made of others, which may send.
        to_site = Tag.SEND in effect.tags and any(leaf.site for leaf in leaves_of(effect))
        to_site = to_site or (effect.kind is EffectKind.INVOKE_ACTION and effect.mode is Mode.COMPOSITE)
        if self.trust.rank >= effect.lowest_trust.rank and not to_site:
            return effect
        seen = {one for one in self._sources if one.trust is self.trust}
        if not seen:  # seen by way of a model that was shown it
            seen = {Provenance(kind="agent", ref="", trust=self.trust)}
        merged = sorted({*effect.provenance, *seen}, key=lambda one: (one.kind, one.ref, one.trust.value))
        if to_site:  # what the agent said itself comes from what it has seen, which is named
            merged = [one for one in merged if one in self._told or (one.kind, one.ref) != ("agent", self._actor)]
        return effect.model_copy(update={"provenance": tuple(merged)})

    def trusted_values(self) -> Iterator[tuple[str, str | int | float]]:
        """Yield what trusted fields of results hold, each with the name of its field; then what the caller saw."""
        for effect, outcome in reversed(self._results):
            if outcome.ok:
                for path in outcome.trusted:
                    yield from _values_at(outcome.value, path, effect.name)
        if self._above is not None:
            yield from self._above.trusted_values()

    # -- where a value came from -----------------------------------------------------------------------------------

    def pieces(self) -> Iterator[Piece]:
        """Yield everything seen that is not the user's own, the newest first, then what the caller saw."""
        for mail in reversed(self._mail):
            if mail.trust.rank >= Trust.USER.rank:
                continue
            yield Piece(f"mail from {mail.sender}", mail.trust, mail.content)
        for effect, outcome in reversed(self._results):
            if effect.kind in (EffectKind.ASK_HUMAN, EffectKind.RECEIVE):
                continue
            label = _label(effect)
            for block in outcome.blocks():
                yield from _of_block(block, label)
        if self._request is not None:
            for tool in self._request.tools:
                if tool.trust is Trust.UNTRUSTED:
                    text = f"{tool.description}\n{tool.parameters}"
                    yield Piece(f"the description of the tool {tool.name}", tool.trust, text)
            for message in reversed(self._request.messages):
                if message.role != "system":
                    for block in message.content:
                        # What an agent is told stands without a source.
                        told = "what its caller told it" if message.role == "user" else ""
                        yield from _of_block(block, told)
        if self._above is not None:
            yield from self._above.pieces()


def _values_at(value: JsonValue, path: tuple[str, ...], name: str) -> Iterator[tuple[str, str | int | float]]:
    """Yield the values at a path, each with the name of its field."""
    if not path:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield name, value
        return
    first, *rest = path
    if first == EACH and isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _values_at(one, tuple(rest), name)
    elif isinstance(value, dict) and first in value:
        yield from _values_at(value[first], tuple(rest), first)


def origins(
    effect: Effect,
    doubtful: dict[str, Trust],
    seen: SeenProvenance,
    content: tuple[str, ...],
    file_names: tuple[str, ...] = (),
) -> dict[str, JsonValue]:
    """Return for every argument of a call its value for a reader, its trust, and the sources it may stem from.

    `doubtful` are the arguments that policy did not take for the user's; `content` is the user's words, the task first.
    """
    words = words_of(content)
    untrusted = [one for one in effect.provenance if one.trust is Trust.UNTRUSTED]
    saw = listed_sources(untrusted or effect.provenance, 5) or "nothing but its instructions"
    search = _Search(seen, file_names)
    found: dict[str, JsonValue] = {}
    leaves = leaves_of(effect)
    # What nobody said comes first: of very many arguments the log keeps only so many one by one.
    for leaf in sorted(leaves, key=lambda one: one.path not in doubtful)[:MOST_SHOWN]:
        told = None if isinstance(leaf.value, bool) else words.where(leaf.value)
        if leaf.path in doubtful or told is None:
            places: list[str] = [] if leaf.default else search.places(leaf)
            said = "the tool's default" if leaf.default else f"composed by the model while it saw: {saw}"
            trust = doubtful.get(leaf.path, Trust.SYSTEM if leaf.default else effect.lowest_trust)
            listed: list[JsonValue] = [*places] or [said]
        else:
            trust, listed = Trust.USER, ["your task" if told == 0 else "your words besides the task"]
        found[leaf.path] = {"value": harmless(shown_text(leaf.value)), "trust": trust.value, "from": listed}
    order = {leaf.path: number for number, leaf in enumerate(leaves)}
    return dict(sorted(found.items(), key=lambda item: order[item[0]]))


def what_was_seen(provenance: Sequence[Provenance]) -> dict[str, JsonValue]:
    """Return the untrusted sources that an agent has seen, for the details of a question of its own."""
    untrusted = [one for one in provenance if one.trust is Trust.UNTRUSTED]
    return {"saw": listed_sources(untrusted, 5)} if untrusted else {}


def listed_sources(provenance: Sequence[Provenance], most: int) -> str:
    """Return sources for a sentence: what was read before what agents said of it."""
    ranked = sorted(provenance, key=lambda one: (one.kind == "agent", one.kind, one.ref))
    named = [f"{one.kind} {one.ref}" for one in ranked if one.ref] or [one.kind for one in ranked]
    names = [harmless(one, 120) for one in dict.fromkeys(named)]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


class _Search:
    """Where values stand in what was seen; read once for the arguments of one call."""

    def __init__(self, seen: SeenProvenance, file_names: tuple[str, ...]) -> None:
        self._seen = seen
        self._names = "\n".join(fold(name) for name in file_names)
        self._pieces: list[tuple[Piece, str]] | None = None

    def places(self, leaf: Leaf) -> list[str]:
        """Return the places where a value stands."""
        wanted = "" if isinstance(leaf.value, bool) else fold(shown_text(leaf.value)).strip()
        if not wanted:
            return []
        found: dict[str, None] = {}
        if stands_in(wanted, self._names):
            found["the name of a file"] = None
        for piece, folded in self._all():
            if len(found) >= MOST_PLACES:
                break
            if stands_in(wanted, folded):
                found[harmless(_with_place(piece, wanted), 240)] = None
        return list(found)

    def _all(self) -> list[tuple[Piece, str]]:
        if self._pieces is None:
            self._pieces = []
            left = MOST_CHARS
            for piece in self._seen.pieces():
                left -= len(piece.text)
                if left < 0:
                    break
                if piece.label:
                    self._pieces.append((piece, fold(piece.text)))
        return self._pieces


def _with_place(piece: Piece, wanted: str) -> str:
    line = next((n for n, one in enumerate(piece.text.splitlines(), start=1) if stands_in(wanted, fold(one))), 1)
    if piece.place:
        where = _exact(piece.place, piece.text, line)
    else:
        where = f"line {line}" if "\n" in piece.text.strip() else ""
    return f"{piece.label}, {where}" if where else piece.label


def _exact(place: str, text: str, line: int) -> str:
    """Return `line 12` where a block says `lines 10-14` and holds just these."""
    unit, _, span = place.partition(" ")
    first, _, last = span.partition("-")
    if unit == "lines" and first.isdigit() and last.isdigit() and len(text.splitlines()) == int(last) - int(first) + 1:
        return f"line {int(first) + line - 1}"
    return place


def _of_block(block: Block, label: str) -> Iterator[Piece]:
    if not isinstance(block, TextBlock) or block.trust in (Trust.USER, Trust.SYSTEM):
        return
    source, place = block.source, ""
    if source is not None:
        label, place = f"{source.kind} {source.ref}".strip(), source.place or ""
    yield Piece(label, block.trust, block.text, place)


def _label(effect: Effect) -> str:
    """Return the origin of an outcome in words: for what was read from the network, the address."""
    kind = _KINDS.get(effect.kind, "tool")
    links = sorted({one for leaf in leaves_of(effect) if isinstance(leaf.value, str) for one in links_in(leaf.value)})
    if "network" in effect.tags and links:
        return f"web {links[0]} ({effect.name})"
    return f"{kind} {effect.name}"
