"""Names of hosts to IP addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agentorchestra.core.errors import MissingExtraError, SettingsError

# The IP addresses of a host's name; raises OSError where it has none. Asked anew for every connection.
Resolver = Callable[[str], Awaitable[Sequence[str]]]


async def system_names(host: str) -> list[str]:
    """Return the addresses that this system's resolver knows, each once; OSError where there is none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def names_from(servers: Sequence[str]) -> Resolver:
    """Return a resolver that asks these name servers (`IP` or `IP:PORT`) only: no hosts file, no search list."""
    try:
        import dns.asyncresolver
        import dns.exception
        import dns.nameserver
    except ImportError:
        raise MissingExtraError(
            "the setting web.nameservers needs the extra `reading`: pip install 'agentorchestra[reading]'"
        ) from None
    from agentorchestra.tools.web.addresses import parse_address

    asked: list[Any] = []
    for one in servers:
        written = one if one.startswith("[") or one.count(":") <= 1 else f"[{one}]"
        try:
            address = parse_address(f"https://{written}")
        except Exception:
            address = None
        if address is None or address.ip is None:
            raise SettingsError(f"web.nameservers holds {one!r}; give IP addresses, e.g. '9.9.9.9' or '127.0.0.1:5353'")
        asked.append(dns.nameserver.Do53Nameserver(address.host, 53 if address.port == 443 else address.port))
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = asked
    resolver.lifetime = 10.0

    async def resolve(host: str) -> list[str]:
        try:
            found = await resolver.resolve_name(f"{host}.")
        except dns.exception.DNSException as error:
            raise OSError(f"the name servers know no address of it ({type(error).__name__})") from None
        return list(dict.fromkeys(found.addresses()))

    return resolve
