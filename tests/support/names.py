"""A resolver that asks one name server of the tests, in place of the system's."""

from __future__ import annotations

import dns.asyncresolver
import dns.exception
import dns.nameserver

from agentorchestra.tools.web.resolver import Resolver


def names_from(port: int) -> Resolver:
    """Ask the server on this port of the machine only: no hosts file, no search list."""
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = [dns.nameserver.Do53Nameserver("127.0.0.1", port)]
    resolver.lifetime = 10.0

    async def resolve(host: str) -> list[str]:
        try:
            found = await resolver.resolve_name(f"{host}.")
        except dns.exception.DNSException as error:
            raise OSError(f"the name server knows no address of it ({type(error).__name__})") from None
        return list(dict.fromkeys(found.addresses()))

    return resolve
