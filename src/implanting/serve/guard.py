"""Checks that every request passes before it reaches a route.

- A browser on this machine can be made to send requests by any web page. So `Host` must be ours (a name that an
  attacker points at 127.0.0.1 is not), and what changes something must come from our own page or from no page at all.
  A service that listens everywhere cannot know all its addresses, so it answers to any IP address: only names can be
  pointed elsewhere, and a page that was loaded from another machine's IP address has another origin.
- Other machines need a token, which a browser gets as a cookie and a program sends as `Authorization: Bearer TOKEN`.
- Bodies are bounded in bytes while they arrive, and requests in number.
"""

import hmac
import ipaddress
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "implanting-token"

LOCAL = ("localhost", "127.0.0.1", "::1")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "media-src 'self' blob:; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
}

SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Limits:
    """Limits that apply to every request."""

    bytes: int = 64 * 2**20
    """Largest body of a request."""
    images: int = 200
    """Most photos of a request."""
    requests: int = 64
    """Most requests that are answered at the same time."""


class Guard:
    """Passes permitted requests on, and answers all others by itself."""

    def __init__(
        self, app: ASGIApp, hosts: Iterable[str], token: str | None, limits: Limits, *, any_ip_address: bool = False
    ) -> None:
        """`hosts` are the names and IP addresses that the service answers to, all of these if `any_ip_address`."""
        self._app, self._token, self._limits = app, token, limits
        self._hosts, self._any_ip_address = frozenset(host.casefold() for host in hosts), any_ip_address
        self._free = threading.BoundedSemaphore(limits.requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if refusal := self._refusal(scope, headers):
            await _answer(send, *refusal)
        elif granted := self._login(scope):
            await _answer(send, 303, "", location="/", **{"set-cookie": granted})
        elif not self._free.acquire(blocking=False):
            message = f"{self._limits.requests} requests are being answered already: try again in a moment"
            await _answer(send, 429, message, **{"retry-after": "1"})
        else:
            try:
                await self._bounded(scope, receive, send)
            finally:
                self._free.release()

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = _name(f"//{headers.get('host', '')}")
        if host not in self._hosts and not (self._any_ip_address and _is_ip_address(host)):
            return 403, f"the service does not answer as {host!r}: open it at its own address, or start it with --host"
        origin = headers.get("origin")
        foreign = origin is not None and origin.partition("://")[2] != headers.get("host")
        if scope["method"] not in SAFE and (
            foreign or headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
        ):
            return 403, "the request comes from another web page: use the service's own page, or a program"
        if self._token is not None and not self._knows_token(scope, headers):
            return 401, (
                "a token is needed: open the address that the server printed, "
                "or send the header `Authorization: Bearer TOKEN`"
            )
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._limits.bytes:
            return (
                413,
                f"the request has {length} bytes; at most {self._limits.bytes:,} are accepted: send fewer photos",
            )
        return None

    def _knows_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        return any(_same(given, self._token) for given in (bearer, _cookie(headers), *_asked_token(scope)))

    def _login(self, scope: Scope) -> str | None:
        """The cookie for a browser that opens the page by the address with the token."""
        if (
            self._token is None
            or scope["path"] != "/"
            or not any(_same(one, self._token) for one in _asked_token(scope))
        ):
            return None
        return f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        taken, started = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limits.bytes:
                raise TooLarge
            return message

        async def dressed(message: Message) -> None:
            nonlocal started
            if taken > self._limits.bytes and not started:  # whatever the application made of the exception
                raise TooLarge
            started = True
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encoded(HEADERS)]
            await send(message)

        try:
            await self._app(scope, counted, dressed)
        except TooLarge:
            message = f"the request is too large; at most {self._limits.bytes:,} bytes are accepted: send fewer photos"
            await _answer(send, 413, message)


class TooLarge(Exception):
    """A body with more bytes than are accepted."""


async def _answer(send: Send, status: int, message: str, **headers: str) -> None:
    body = json.dumps({"message": message}).encode() if message else b""
    dress = {**HEADERS, "content-type": "application/json", "content-length": str(len(body)), **headers}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(dress)})
    await send({"type": "http.response.body", "body": body})


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _name(address: str) -> str:
    """The host of an address, in small letters."""
    try:
        return (urlsplit(address).hostname or "").casefold()
    except ValueError:
        return ""


def _is_ip_address(host: str) -> bool:
    """Whether a host is an IP address, and not a name that somebody may point at one."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _same(given: str | None, token: str | None) -> bool:
    return bool(given) and token is not None and hmac.compare_digest(str(given).encode(), token.encode())


def _cookie(headers: dict[str, str]) -> str | None:
    try:
        found: Any = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return found.value if found else None


def _asked_token(scope: Scope) -> list[str]:
    return parse_qs(scope["query_string"].decode("latin-1")).get("token", []) if scope["path"] == "/" else []
