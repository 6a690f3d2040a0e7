"""The files that a run made for its user, by its log: what its tools and agents made, and what is in its folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

from pydantic import JsonValue

from agentorchestra.core.effects import OF_AGENTS, ArtifactRef, EffectKind
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import RunFile
from agentorchestra.log.folders import MAIN
from agentorchestra.log.ledger import Ledger, Record, parent_key

MOST_BYTES = 200  # bytes of one part of a name; file systems allow 255, and a number may be added
MOST_PARTS = 40  # folders in folders of a name; of a deeper one the last parts are kept
STATE = "file:"  # how the names of the run's state begin that hold the files of the folder in which programs work

_MAKERS = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, *OF_AGENTS})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")


class FolderFiles(NamedTuple):
    """The files that a run made or changed in its folder; `more` counts those that are not listed."""

    files: tuple[RunFile, ...] = ()
    more: int = 0


def made_files(ledger: Ledger, folder: Sequence[RunFile] = ()) -> tuple[RunFile, ...]:
    """Return the files of a run with names that differ, sorted by them; no blob is read.

    Args:
        ledger: the run's.
        folder: what it made or changed in its folder. These keep their names, since they may name each other.
    """
    # The latest of several files with one name has it, the earlier ones get a number.
    artifacts = reversed(_artifacts(ledger))
    names, files = _Names(), dict[tuple[str, str], RunFile]()
    for file in (*folder, *artifacts):
        name = clean_name(file.name)
        if (name, file.sha256) not in files:
            files[name, file.sha256] = file.model_copy(update={"name": names.take(name), "path": None})
    return tuple(sorted(files.values(), key=lambda file: file.name))


def clean_name(name: str) -> str:
    """Return a relative path that leads nowhere else and that a file can have; the name itself where it is one."""
    text = _CONTROL.sub("_", name).encode("utf-8", "replace").decode()
    parts = [_short(part) for part in text.split("/") if part not in ("", ".", "..")]
    return "/".join(parts[-MOST_PARTS:]) or "file"


def numbered_names(name: str) -> Iterator[str]:
    """Yield the name of a file or folder, then further ones: `a.png`, `a-2.png`, `a-3.png`."""
    yield name
    dot = name.rfind(".")
    stem, ending = (name[:dot], name[dot:]) if dot > 0 else (name, "")
    for number in count(2):
        yield f"{stem}-{number}{ending}"


def _short(part: str) -> str:
    if len(part.encode()) <= MOST_BYTES:
        return part
    dot = part.rfind(".")
    ending = part[dot:].encode()[:20] if dot > 0 else b""
    return (part.encode()[: MOST_BYTES - len(ending)] + ending).decode("utf-8", "ignore")


class _Names:
    """Names that were taken: none is a file's twice, and none a file's and a folder's."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def take(self, name: str) -> str:
        *folders, last = name.split("/")
        place = ""
        for part in folders:
            folder = next(candidate for candidate in self._below(place, part) if candidate not in self._files)
            self._folders.add(folder)
            place = f"{folder}/"
        free = next(name for name in self._below(place, last) if name not in self._files and name not in self._folders)
        self._files.add(free)
        return free

    @staticmethod
    def _below(place: str, name: str) -> Iterator[str]:
        return (f"{place}{candidate}" for candidate in numbered_names(name))


def _artifacts(ledger: Ledger) -> list[RunFile]:
    standing = _standing(ledger)
    files: dict[tuple[object, ...], RunFile] = {}
    for key, record in sorted(ledger.records.items(), key=lambda pair: pair[1].seq):
        if record.outcome is None:
            continue
        removed, place = _removed(record), _agent_of(ledger, key)
        for name in removed or ():
            files.pop((place, name), None)
        rival = record.effect.get("world", MAIN) != MAIN
        for ref in record.outcome.artifacts:
            if not _is_for_user(ref, removed) or (rival and (ref.name, ref.sha256) not in standing):
                continue
            # Programs of one agent work in one folder, where a later file takes the place of an earlier one.
            slot = (place, ref.name) if removed is not None else ("", ref.name, ref.sha256)
            if removed is not None:
                files.pop(slot, None)
            files.setdefault(slot, _file(ref, _maker(ledger, key, record)))
    return [*files.values()]


def _is_for_user(ref: ArtifactRef, removed: Sequence[str] | None) -> bool:
    """Return True for a file that the user gets; logs from before said so of what a program left alone."""
    return ref.made_for == "user" or (not ref.made_for and removed is not None)


def _removed(record: Record) -> tuple[str, ...] | None:
    """Return the files that a program removed from the folder in which it worked; None for all but such a program."""
    value: JsonValue = record.outcome.value if record.outcome is not None else None
    if record.effect.get("kind") != EffectKind.RUN_CODE or not isinstance(value, dict):
        return None
    removed = value.get("removed")
    return tuple(str(name) for name in removed) if isinstance(removed, list) else None


def _standing(ledger: Ledger) -> set[tuple[str, str]]:
    """Return the files of programs that the run's state has at its end, the winner's of rival worlds among them."""
    state: dict[str, JsonValue] = {}
    for key, record in sorted(ledger.records.items(), key=lambda pair: pair[1].seq):
        if key.branch == "/" and record.outcome is not None:
            state |= {name: value for name, value in record.outcome.writes.items() if name.startswith(STATE)}
    return {
        (name.removeprefix(STATE), str(value["sha256"]))
        for name, value in state.items()
        if isinstance(value, dict) and "sha256" in value
    }


def _above(ledger: Ledger, key: EffectKey) -> Iterator[tuple[EffectKey, Record]]:
    at: EffectKey | None = key
    while at is not None:
        record = ledger.records.get(at)
        if record is not None:
            yield at, record
        at = parent_key(at.branch)


def _agent_of(ledger: Ledger, key: EffectKey) -> EffectKey | None:
    return next((at for at, record in _above(ledger, key) if record.effect.get("kind") in OF_AGENTS), None)


def _maker(ledger: Ledger, key: EffectKey, record: Record) -> str:
    makers = (above for _, above in _above(ledger, key) if above.effect.get("kind") in _MAKERS)
    return name_of(next(makers, record))


def name_of(record: Record) -> str:
    return str(record.effect.get("component", "")).partition("@")[0]


def _file(ref: ArtifactRef, maker: str) -> RunFile:
    return RunFile(name=ref.name, media_type=ref.media_type, size=ref.size, sha256=ref.sha256, made_by=maker)
