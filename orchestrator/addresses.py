"""Where a webhook may lead: never into the operator's own network, unless the operator allows it.

An address is checked twice: as it is written, when a webhook is made, and as it resolves, each time before something is sent.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from orchestrator.errors import BadInput

if TYPE_CHECKING:
    import httpx

MAX_URL = 2000
"""Characters of a webhook's address."""
HTTPS_PORT = 443
FIRST_FREE_PORT = 1024
"""Below it are the services of machines and networks (SMTP, LDAP, ...), of which only HTTPS is one to send to."""
LAST_PORT = 65535
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses of IPv4, in their last 32 bits, as networks that have only IPv6 see them."""
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_PROTOCOLS = (ipaddress.IPv4Network("192.0.0.0/24"), ipaddress.IPv4Network("192.88.99.0/24"))
"""Kept for protocols of the network itself; not every Python knows."""
_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,252}")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_public(address: Address) -> bool:
    """Whether an address belongs to the open internet: not private, loopback, link-local, multicast or reserved.

    What only wraps an address of IPv4 is judged by that one.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address in _LOCAL_NAT64 or address.is_site_local or address.sixtofour is not None or address.teredo is not None:
            return False
    elif any(address in network for network in _PROTOCOLS):
        return False
    refused = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    return address.is_global and not (refused or address.is_reserved or address.is_unspecified)


def check_address(text: str, *, allow_private: bool) -> httpx.URL:
    """The address of a webhook. Raises `BadInput` when nothing may be sent there, as far as it can be told without a network.

    With `allow_private` the operator's own network is allowed, plain HTTP too.
    """
    import httpx

    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as exc:
        raise BadInput(f"url: {exc}") from exc
    schemes = ("https", "http") if allow_private else ("https",)
    if len(text) > MAX_URL:
        raise BadInput(f"url: it has more than {MAX_URL} characters")
    if url.scheme not in schemes or not url.host:
        raise BadInput(f"url: write {' or '.join(f'{scheme}://' for scheme in schemes)} and a host")
    if not _is_host(url):
        raise BadInput(f"url: {url.host!r} is neither the name of a host nor an address")
    if url.userinfo or url.fragment:
        raise BadInput("url: leave out user, password and fragment; what is sent is signed")
    if not _port_allowed(port_of(url), allow_private):
        raise BadInput(f"url: the port must be {HTTPS_PORT} or from {FIRST_FREE_PORT} to {LAST_PORT}")
    if not allow_private and not _may_be_public(url.host):
        raise BadInput(f"url: {url.host} is no public address, and nothing is sent to others (FANFOLD_WEBHOOK_ALLOW_PRIVATE)")
    return url


def port_of(url: httpx.URL) -> int:
    """The port, whether it is written or not."""
    if url.port is not None:
        return url.port
    return HTTPS_PORT if url.scheme == "https" else 80


def _is_host(url: httpx.URL) -> bool:
    raw = url.raw_host.decode("ascii")
    return ":" in raw or _NAME.fullmatch(raw) is not None


def _port_allowed(port: int, allow_private: bool) -> bool:
    return 0 < port <= LAST_PORT and (allow_private or port == HTTPS_PORT or port >= FIRST_FREE_PORT)


def _may_be_public(host: str) -> bool:
    """Whether a host is a public address, or a name that may have one."""
    try:
        return is_public(ipaddress.ip_address(host))
    except ValueError:
        name = host.rstrip(".").lower()
        return name != "localhost" and not name.endswith(".localhost")
