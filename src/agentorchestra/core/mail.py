"""Mail between the actors of one run (003, sec. 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import BaseModel

from agentorchestra.core.content import Trust

TOLD = "told#"


class Mail(BaseModel, frozen=True):
    """A message between actors of one run."""

    id: str  # the key of the send as text, `told#SEQUENCE` for mail from outside: the same in a fork
    seq: int  # its place in the log; mailboxes are read in this order
    # `sender`, `to`: actors' names
    sender: str
    to: tuple[str, ...]
    content: str  # the text
    thread: str = ""  # the conversation it belongs to, "" for none
    trust: Trust = Trust.UNTRUSTED  # no further than what its sender had seen

    @property
    def outside(self) -> bool:
        """Return True if it came from outside the run."""
        return self.id.startswith(TOLD)


MOST_CHARS = 50_000  # characters of one message; longer material belongs into a file that the message names
Topology = Literal["star", "mesh"]  # who may write to whom: everybody through the leader, or everybody to everybody


@dataclass
class Thread:
    """A conversation: who takes part, and whether it is closed."""

    participants: list[str]
    closed: bool = False


@dataclass
class Society:
    """The agents of a run that write to each other, and their threads: all of it from recorded sends, in log order.

    A message of the leader opens its thread where there is none. A send whose arguments have an `op` is a change:
    `found` (leader, members, topology), `create` (thread, participants), `add`, `remove` (thread, peer), `close`
    (thread, summary). Calls of one decision run beside each other, so a change may come after one that made it idle.
    """

    leader: str = ""
    home: str = ""  # the branch of the leader, who founded it; its members were spawned there
    members: dict[str, str] = field(default_factory=dict)
    topology: Topology = "star"
    threads: dict[str, Thread] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)  # agents that work no more, and why; who spawned them says so

    def take(self, arguments: Mapping[str, Any], branch: str) -> bool:
        """Take in a change that was recorded on a branch; return False for a message."""
        op, thread = arguments.get("op"), str(arguments.get("thread", ""))
        if op is None:
            if self.leader and arguments.get("sender") == self.leader:
                self.threads.setdefault(thread, self._open_thread(arguments))
        elif op == "found":
            self.leader, self.members, self.home = str(arguments["leader"]), dict(arguments["members"]), branch
            self.topology = arguments["topology"]
        elif op == "create":
            names = dict.fromkeys([self.leader, *map(str, arguments["participants"])])
            self.threads.setdefault(thread, Thread([*names]))
        elif op in ("add", "remove"):
            name, participants = str(arguments["participant"]), self.threads[thread].participants
            if (op == "add") != (name in participants):
                (participants.append if op == "add" else participants.remove)(name)
        elif op == "close":
            self.threads[thread].closed = True
        return op is not None

    def forgery(self, name: str, branch: str) -> str:
        """Return why the agent that works on a branch is not who it is named like, "" if it is.

        Anybody who starts an agent names it, so a name alone says nothing.
        """
        if not self.leader or name not in (self.leader, *self.members):
            return ""
        seat = branch if name == self.leader else branch.rpartition("/")[0] or "/"
        return "" if seat == self.home else f"the agent at {branch} is not the {name} that others write to"

    def problem(self, sender: str, arguments: Mapping[str, Any]) -> str:
        """Return what is wrong with a change that `sender` wants, "" for nothing."""
        op, name = arguments["op"], str(arguments.get("thread", ""))
        if op == "found":
            if self.leader:
                return f"{self.leader} leads the agents of this run already"
            whole = isinstance(arguments.get("members"), dict) and arguments.get("topology") in get_args(Topology)
            own = arguments.get("leader") == sender
            return "" if whole and own else "a society needs its founder as `leader`, `members`, and a `topology`"
        if sender != self.leader:
            return f"only {self.leader} changes threads; write to it"
        if op == "create":
            if not name.strip() or name in self.threads:
                return f"a thread {name!r} is there already or has no name; choose another name"
            return self._strangers(list(arguments["participants"]))
        thread = self.threads.get(name)
        if thread is None or thread.closed:
            return self._no_thread(name)
        if op == "close":
            return ""
        peer = str(arguments["participant"])
        if op == "add":
            return f"{peer} is in {name!r} already" if peer in thread.participants else self._strangers([peer])
        return "" if peer in thread.participants and peer != self.leader else f"{peer} cannot be taken out of {name!r}"

    def message_problem(self, sender: str, arguments: Mapping[str, Any]) -> str:
        """Return why `sender` cannot send a message, "" if it can (003, sec. 3: the star)."""
        name, content = str(arguments.get("thread", "")), str(arguments.get("content", ""))
        to = [str(recipient) for recipient in arguments.get("to") or []]
        thread = self.threads.get(name)
        if thread is None and sender == self.leader and name.strip():
            thread = self._open_thread(arguments)
        if thread is None or thread.closed:
            return self._no_thread(name)
        if sender not in thread.participants:
            return f"{sender} does not take part in {name!r}"
        if not content.strip():
            return "the message is empty; say what you want"
        if len(content) > MOST_CHARS:
            return (
                f"the message has {len(content):,} characters, {MOST_CHARS:,} are allowed; write the material into a "
                "file and name it, or send what matters"
            )
        if not to:
            return "the message mentions nobody, so nobody would read it; name who is to read it in `mentions`"
        if sender in to:
            return f"{sender} cannot mention itself; name who is to read the message"
        if self.topology == "star" and sender != self.leader and {*to} != {self.leader}:
            return f"{sender} writes to {self.leader} alone, which passes on what others need; mention {self.leader}"
        return self._strangers(to) or next(
            (
                f"{recipient} does not take part in {name!r}; its participants: {', '.join(thread.participants)}"
                for recipient in to
                if recipient not in thread.participants
            ),
            "",
        )

    def _open_thread(self, arguments: Mapping[str, Any]) -> Thread:
        """Return the thread that a message of the leader opens where it is not there yet: with those it mentions."""
        return Thread([*dict.fromkeys([self.leader, *map(str, arguments.get("to") or ())])])

    def _strangers(self, names: list[str]) -> str:
        """Return a sentence on the first name that no agent at work has, "" where each is one."""
        agents = [*self.members, self.leader]
        unknown = [name for name in names if name not in agents]
        if unknown:
            return f"there is no agent {unknown[0]!r}; the agents: {', '.join(agents)}"
        return next((f"{self.lost(name)}; ask another agent" for name in names if name in self.gone), "")

    def lost(self, name: str) -> str:
        """Return a sentence on an agent that is gone."""
        return f"{name} works no more: {self.gone[name]}"

    def _no_thread(self, name: str) -> str:
        open_ = [name for name, thread in self.threads.items() if not thread.closed]
        reason = "is closed" if name in self.threads else "does not exist"
        return f"the thread {name!r} {reason}; the open ones: {', '.join(open_) or 'none'}"
