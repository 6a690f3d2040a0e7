"""The little of git's protocol that this process speaks itself: which refs a remote has, fetch a pack, push a pack.

Repositories are worked on inside the sandbox only, packs are made and unpacked there. What lies between it and a remote
is here: lines with their lengths, a list of refs, and bytes that are handed on unread. So no configuration, hook or
helper of a repository can act in this process, and no program of git runs beside it (gitprotocol-pack, gitprotocol-http
in git's documentation; version 0, which every server speaks).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agentorchestra.core.errors import ToolError

Service = Literal["git-upload-pack", "git-receive-pack"]

QUIET = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
NO_COMMIT = "0" * 40
MOST_REFS = 50_000
ADVERTISED_BYTES = 16 << 20
MOST_HAVES = 256
_FLUSH = b"0000"
_SHA = re.compile(r"[0-9a-f]{40}")
_LONGEST_LINE = 65_520
_REF = re.compile(r"refs/[!-~]+")
_AGENT = "agent=agentorchestra"


class Remote(Protocol):
    """A remote repository, over HTTP or on this machine; `url` is its address without secrets."""

    @property
    def url(self) -> str: ...

    async def advertise(self, service: Service) -> bytes:
        """Return what it says of its refs; raise ToolError in one sentence that says what to do next."""

    async def exchange(self, service: Service, body: bytes, max_bytes: int) -> bytes:
        """Return the answer to one request; raise ToolError as `advertise`."""


@dataclass(frozen=True)
class Refs:
    """Refs of a remote without HEAD and peeled tags; `head` is the ref that HEAD stands for, "" where not said."""

    tips: Mapping[str, str] = field(default_factory=dict)
    head: str = ""
    capabilities: frozenset[str] = frozenset()

    @property
    def branches(self) -> dict[str, str]:
        return {ref.removeprefix("refs/heads/"): sha for ref, sha in self.tips.items() if ref.startswith("refs/heads/")}

    @property
    def tags(self) -> dict[str, str]:
        return {ref.removeprefix("refs/tags/"): sha for ref, sha in self.tips.items() if ref.startswith("refs/tags/")}


@dataclass(frozen=True)
class Update:
    """A ref of the remote that is to be moved from `old` to `new`; NOTHING for none."""

    ref: str
    old: str
    new: str


async def read_refs(remote: Remote, service: Service) -> Refs:
    """Return the refs of a remote; raise ToolError if it does not answer as git does."""
    data = await remote.advertise(service)
    lines = [line for line in _lines(data, remote) if line is not None]
    for head_line in (b"# service=", b"version 1"):
        lines = lines[1:] if lines and lines[0].startswith(head_line) else lines
    tips: dict[str, str] = {}
    head = ""
    capabilities: frozenset[str] = frozenset()
    for number, raw in enumerate(lines):
        line, _, tail = raw.rstrip(b"\n").partition(b"\0")
        text = line.decode("utf-8", "replace")
        if text.startswith("ERR "):
            raise ToolError(f"{remote.url} refuses: {one_line(text[4:])}; check the address and who may use it")
        if number == 0:
            capabilities = frozenset(tail.decode("utf-8", "replace").split())
            head = next((word[12:] for word in capabilities if word.startswith("symref=HEAD:")), "")
        if "object-format=sha256" in capabilities:
            raise ToolError(f"{remote.url} names its commits by SHA-256, which is not spoken here")
        sha, _, ref = text.partition(" ")
        if _SHA.fullmatch(sha) is None:
            if text.startswith("shallow "):
                continue
            raise _no_git(remote)
        if len(tips) >= MOST_REFS:
            raise ToolError(f"{remote.url} has more than {MOST_REFS:,} refs, which is more than is read here")
        if ref.endswith("^{}") or ref in ("HEAD", "capabilities") or _REF.fullmatch(ref) is None:
            continue
        tips[ref] = sha
    return Refs(tips, head if _REF.fullmatch(head) else "", capabilities)


async def fetch_pack(
    remote: Remote,
    refs: Refs,
    wants: Sequence[str],
    haves: Sequence[str],
    *,
    cut_at: Sequence[str] = (),
    depth: int,
    max_bytes: int,
) -> tuple[bytes, tuple[str, ...]]:
    """Return the objects behind `wants`, as a pack that nobody has looked into, and where histories were cut off.

    `haves` are commits that are there already, `cut_at` those of them without their parents; `depth` 0 is the whole
    history. A ToolError for more than `max_bytes`, and for an answer that is not git's.
    """
    can = ["side-band-64k", "ofs-delta", "no-progress", *(["shallow"] if depth or cut_at else [])]
    caps = " ".join([name for name in can if name in refs.capabilities] + [_AGENT])
    if depth and "shallow" not in refs.capabilities:
        raise ToolError(f"{remote.url} gives whole histories only; leave depth out")
    first, *rest = dict.fromkeys(wants)
    body = _line(f"want {first} {caps}\n") + b"".join(_line(f"want {want}\n") for want in rest)
    if "shallow" in refs.capabilities:
        body += b"".join(_line(f"shallow {sha}\n") for sha in cut_at)
    body += (_line(f"deepen {depth}\n") if depth else b"") + _FLUSH
    body += b"".join(_line(f"have {have}\n") for have in haves[:MOST_HAVES]) + _line("done\n")
    answer = await remote.exchange("git-upload-pack", body, max_bytes + (max_bytes >> 6) + (1 << 20))
    pack, shallow = _unpack(answer, remote, side_band="side-band-64k" in refs.capabilities)
    if len(pack) > max_bytes:
        raise ToolError(
            f"{remote.url} has more than {max_bytes >> 20} MiB to give; give a depth, or raise git.max_pack_mib"
        )
    if pack[:4] != b"PACK":
        raise _no_git(remote)
    return pack, shallow


async def push_pack(remote: Remote, refs: Refs, updates: Sequence[Update], pack: bytes) -> None:
    """Hand over a pack and move all refs or none; raise ToolError with what the remote says and what to do next."""
    can = ["report-status", "side-band-64k", "atomic", "ofs-delta", "quiet"]
    caps = " ".join([name for name in can if name in refs.capabilities] + [_AGENT])
    body = b""
    for number, move in enumerate(updates):
        if move.new == NO_COMMIT and "delete-refs" not in refs.capabilities:
            raise ToolError(f"{remote.url} lets nobody delete refs")
        body += _line(f"{move.old} {move.new} {move.ref}".encode() + (b"\0 " + caps.encode() if number == 0 else b""))
    body += _FLUSH + pack
    answer = await remote.exchange("git-receive-pack", body, 4 << 20)
    report, remark = answer, ""
    if "side-band-64k" in refs.capabilities:
        lines = [line for line in _lines(answer, remote) if line is not None]
        report = b"".join(line[1:] for line in lines if line[:1] == b"\x01")
        remark = "".join(line[1:].decode("utf-8", "replace") for line in lines if line[:1] in (b"\x02", b"\x03"))
    if "report-status" not in refs.capabilities:
        return
    states = [line.decode("utf-8", "replace").rstrip("\n") for line in _lines(report, remote) if line is not None]
    if not states:
        raise ToolError(f"{remote.url} did not say whether it took the push; fetch it and look before pushing again")
    outcome = states[0].partition(" ")[2] if states[0].startswith("unpack ") else states[0]
    if outcome != "ok":
        raise ToolError(f"{remote.url} could not take the objects ({one_line(outcome)}); try again{_remarks(remark)}")
    for state in states[1:]:
        if state.startswith("ng "):
            ref, _, reason = state[3:].partition(" ")
            raise ToolError(_refusal(remote.url, ref, reason, remark))


def _refusal(url: str, ref: str, cause: str, note: str) -> str:
    hints = {
        "non-fast-forward": "fetch it, merge what is new there, and push again",
        "fetch first": "fetch it, merge what is new there, and push again",
        "protected branch hook declined": "push to another branch and ask for a merge",
        "hook declined": "do what its rules ask for, then commit and push again",
        "failed to update ref": "somebody pushed at the same time: fetch, merge and push again",
        "incorrect old value provided": "somebody pushed at the same time: fetch, merge and push again",
        "branch is currently checked out": "push to another branch: this one is checked out there",
    }
    hint = next((hint for words, hint in hints.items() if words in cause), "do what it asks for, then push again")
    return f"{url} refused the push to {one_line(ref)} ({one_line(cause) or 'no reason given'}){_remarks(note)}; {hint}"


def _remarks(remark: str) -> str:
    return f', it says "{one_line(remark)}"' if remark.strip() else ""


def _line(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return f"{len(data) + 4:04x}".encode("ascii") + data


def _lines(data: bytes, remote: Remote) -> Iterator[bytes | None]:
    """Yield the lines; None for the end of a section."""
    at = 0
    while at < len(data):
        size, at = _size(data, at, remote)
        if size == 0:
            yield None
            continue
        yield data[at : at + size]
        at += size


def _size(data: bytes, at: int, remote: Remote) -> tuple[int, int]:
    """Return the length of the line at an offset, without its head, and its start; 0 for the end of a section."""
    head = data[at : at + 4]
    if re.fullmatch(rb"[0-9a-fA-F]{4}", head) is None:
        raise _no_git(remote)
    size = int(head, 16)
    if size < 4:
        return 0, at + 4
    if size > _LONGEST_LINE or at + size > len(data):
        raise _no_git(remote)
    return size - 4, at + 4


def _unpack(answer: bytes, remote: Remote, *, side_band: bool) -> tuple[bytes, tuple[str, ...]]:
    pieces: list[bytes] = []
    shallow: list[str] = []
    at = 0
    while at < len(answer):
        if not side_band and answer[at : at + 4] == b"PACK":
            return answer[at:], tuple(shallow)
        size, at = _size(answer, at, remote)
        line = answer[at : at + size]
        at += size
        if line.startswith(b"ERR "):
            raise ToolError(f"{remote.url} refuses: {one_line(line[4:].decode('utf-8', 'replace'))}")
        if line[:1] == b"\x03":
            raise ToolError(f"{remote.url} broke off: {one_line(line[1:].decode('utf-8', 'replace'))}; try again")
        if line.startswith(b"shallow "):
            sha = line[8:].decode("ascii", "replace").strip()
            shallow += [sha] if _SHA.fullmatch(sha) else []
        elif side_band and line[:1] == b"\x01":
            pieces.append(line[1:])
    return b"".join(pieces), tuple(shallow)


def one_line(text: str, most: int = 400) -> str:
    """Return what others wrote in one line, without control characters, cut to `most` characters."""
    words = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return words if len(words) <= most else f"{words[:most]} …"


def _no_git(remote: Remote) -> ToolError:
    return ToolError(f"{remote.url} does not answer as a git repository does; check the address")
