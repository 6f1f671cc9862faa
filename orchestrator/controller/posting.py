"""Sending one thing to one receiver, which nobody trusts: where it leads, how long it takes, how much it answers."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from orchestrator.addresses import check_address, is_public, port_of
from orchestrator.errors import BadInput

if TYPE_CHECKING:
    import ssl

    import httpx

TIMEOUT = 10.0
"""Seconds for an attempt, all in all."""
MAX_ANSWER = 64 * 1024
"""Bytes of an answer that are read, so that the receiver need not see a broken connection; nothing is done with them."""
READ_TIMEOUT = 2.0
"""Seconds for reading them; the answer's status has been heard by then."""
MAX_TRIED = 3
"""Addresses of a name that are tried, one after the other."""


@dataclass(frozen=True)
class Answer:
    """What a receiver said. `status` is None when it said nothing; `error` is None when it has what was sent."""

    status: int | None
    error: str | None


class Poster:
    """Posts to public addresses alone, or to any with `allow_private`. Safe to use from many threads.

    A name is resolved once. Each of its addresses has to be allowed, and the connection goes to one of these very addresses:
    what the name means a moment later changes nothing. Redirects are not followed, proxies of the environment not used.
    """

    def __init__(self, *, allow_private: bool, timeout: float = TIMEOUT) -> None:
        self._allow_private = allow_private
        self._timeout = timeout

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        import httpx  # slow to import, and most installations send nothing

        return httpx.create_ssl_context()

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post a body. Never raises: what went wrong is in the answer, in words for the webhook's owner."""
        import httpx

        try:
            return asyncio.run(asyncio.wait_for(self._post(url, body, headers), self._timeout))
        except TimeoutError:
            return Answer(None, f"no answer within {self._timeout:g} seconds")
        except BadInput as exc:
            return Answer(None, str(exc))
        except httpx.HTTPError as exc:
            return Answer(None, f"{type(exc).__name__}: {exc}".rstrip(": "))
        except (OSError, ValueError) as exc:  # the name has no address, or is none
            return Answer(None, f"the host of this address cannot be found: {exc}")

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        import httpx

        target = check_address(url, allow_private=self._allow_private)
        addresses = await self._resolve(target)
        for address in addresses[:-1]:
            try:
                return await self._post_to(address, target, body, headers)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._post_to(addresses[-1], target, body, headers)

    async def _resolve(self, url: httpx.URL) -> list[str]:
        """The addresses to try. Raises `BadInput` when any of the host's is not allowed, which one stays untold."""
        loop = asyncio.get_running_loop()
        host = url.raw_host.decode("ascii").strip("[]")
        found = await loop.getaddrinfo(host, port_of(url), type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if not self._allow_private and not all(is_public(ipaddress.ip_address(address)) for address in addresses):
            raise BadInput(f"{url.host} leads to an address that is not public, and nothing is sent to such ones")
        return addresses[:MAX_TRIED]

    async def _post_to(self, address: str, url: httpx.URL, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post to one address in the name of the URL's host, which is what the certificate has to be for."""
        import httpx

        name = url.raw_host.decode("ascii")
        sent = {**headers, "Host": url.netloc.decode("ascii")}
        # One client for each: a connection that was made for one name must never serve another one at the same address.
        async with (
            httpx.AsyncClient(verify=self._tls, trust_env=False, follow_redirects=False, timeout=self._timeout) as client,
            client.stream(
                "POST", url.copy_with(host=address), content=body, headers=sent, extensions={"sni_hostname": name}
            ) as response,
        ):
            await _read_some(response)
            if response.is_success:
                return Answer(response.status_code, None)
            hint = ", and redirects are not followed" if response.is_redirect else ""
            return Answer(response.status_code, f"it answered {response.status_code}{hint}")


async def _read_some(response: httpx.Response) -> None:
    import httpx

    read = 0
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(READ_TIMEOUT):
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read >= MAX_ANSWER:
                    return


