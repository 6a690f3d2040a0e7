"""A name server on the loopback address whose answers change from one question to the next."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


class NameServer(asyncio.DatagramProtocol):
    """Answers over UDP.

    Attributes:
        zone: of each name the answers, one after the other, the last one for ever; each a list of addresses, or
            `->other.name` for an alias.
        asked: how often each name was asked for, by (name, type).
        port: where it listens.
    """

    def __init__(self, zone: dict[str, list[list[str]]]) -> None:
        self.zone = zone
        self.asked: Counter[tuple[str, str]] = Counter()
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        question = query.question[0]
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        name = question.name.to_text().rstrip(".").lower()
        kind = dns.rdatatype.to_text(question.rdtype)
        turn = self.asked[name, kind]
        self.asked[name, kind] += 1
        if name not in self.zone:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        else:
            self._fill(answer, name, kind, turn)
        assert self._transport is not None
        self._transport.sendto(answer.to_wire(), addr)

    def _fill(self, answer: dns.message.Message, name: str, kind: str, turn: int) -> None:
        turns = self.zone[name]
        for one in turns[min(turn, len(turns) - 1)]:
            if one.startswith("->"):
                answer.answer.append(dns.rrset.from_text(f"{name}.", 0, "IN", "CNAME", f"{one[2:]}."))
                self._fill(answer, one[2:], kind, turn)
            elif (":" in one) == (kind == "AAAA"):
                answer.answer.append(dns.rrset.from_text(f"{name}.", 0, "IN", kind, one))


@asynccontextmanager
async def name_server(zone: dict[str, list[list[str]]]) -> AsyncIterator[NameServer]:
    """A server of these names, until the block ends."""
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(zone), local_addr=("127.0.0.1", 0)
    )
    server.port = transport.get_extra_info("sockname")[1]
    try:
        yield server
    finally:
        transport.close()
