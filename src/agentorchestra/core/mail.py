"""Mail between the actors of one run (003, sec. 3)."""

from __future__ import annotations

from pydantic import BaseModel

from agentorchestra.core.content import Trust

TOLD = "told#"


class Mail(BaseModel, frozen=True):
    """A message between actors of one run.

    Attributes:
        id: the key of the send as text, `told#SEQUENCE` for mail from outside: the same in a fork.
        seq: its place in the log; mailboxes are read in this order.
        sender, to: actors' names.
        content: the text.
        thread: the conversation it belongs to, "" for none.
        trust: no further than what its sender had seen.
    """

    id: str
    seq: int
    sender: str
    to: tuple[str, ...]
    content: str
    thread: str = ""
    trust: Trust = Trust.UNTRUSTED

    @property
    def outside(self) -> bool:
        """Return True if it came from outside the run."""
        return self.id.startswith(TOLD)
