"""What a turn of a session begins with: how the turn before it ended (docs/sessions.md)."""

from __future__ import annotations

from pydantic import BaseModel, JsonValue

from agentorchestra.core.effects import ArtifactRef, Provenance
from agentorchestra.core.messages import Message


class TurnState(BaseModel, frozen=True):
    """The state that one turn of a session left, by reference to blobs; it lies in the next turn's first event."""

    # the conversation of the top agent, its system prompt first; without one where it had none
    messages: tuple[Message, ...] = ()
    native: bool = True  # whether its calls stand as calls, and not in its words
    sources: tuple[Provenance, ...] = ()  # where everything in it came from, also what was taken out of it meanwhile
    opened: tuple[str, ...] = ()  # the tools that were opened in its course
    vars: dict[str, JsonValue] = {}  # the run's state: where environments stand, variables of programs, what tools keep
    # what was kept under a name, pages that were read among it; of each name the last
    artifacts: tuple[ArtifactRef, ...] = ()
    # `links`, `found`, `followed`: addresses that results named, that the framework's own search found, that were read
    links: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()
