from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

# The IP addresses of a host's name; raises OSError where it has none. Asked anew for every connection.
Resolver = Callable[[str], Awaitable[Sequence[str]]]


async def system_names(host: str) -> list[str]:
    """Return the addresses that this system's resolver knows, each once; OSError where there is none."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))
