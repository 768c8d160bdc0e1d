"""Starting the service: where it listens, where it keeps its data, and the address that people open."""

import ctypes
import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from implanting.config import ClassifierConfig
from implanting.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from implanting.base import BaseNetwork

PACKAGES = ("fastapi", "uvicorn", "python_multipart")

ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses of other machines, which are reserved for documents: nothing is sent to them."""

SHORTEST_TOKEN = 12

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""


@dataclass(frozen=True)
class Address:
    """The address of the service, and the token that it asks for."""

    host: str
    port: int
    token: str | None

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or bool(self._ip_address and self._ip_address.is_loopback)

    @property
    def everywhere(self) -> bool:
        """Whether it is reached at every address of this machine."""
        return bool(self._ip_address and self._ip_address.is_unspecified)

    @property
    def url(self) -> str:
        """The address that people open on this machine."""
        return self._url("localhost" if self.everywhere else self.host)

    @property
    def url_elsewhere(self) -> str | None:
        """The address that people open on other machines; None where that is `url`, or where they cannot."""
        return self._url(_own_ip_address(self._family) or socket.gethostname()) if self.everywhere else None

    def listen(self) -> socket.socket:
        """A socket that listens at this address."""
        listening = socket.socket(self._family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.host, self.port))
        except OSError as error:
            listening.close()
            raise ConfigError(
                f"`host` {self.host} with `port` {self.port} cannot be used ({error.strerror}): "
                "choose another port, or 0 for any that is free"
            ) from error
        listening.listen(128)
        return listening

    @property
    def _ip_address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None  # a name

    @property
    def _family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    def _url(self, host: str) -> str:
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{self.port}/" + (f"?token={quote(self.token)}" if self.token else "")


def address_of(host: str, port: int, token: str | None) -> Address:
    """Return the address; raise an error if other machines could reach it without a token."""
    address = Address(host, port, token)
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isalnum()):
        raise ConfigError(
            f"`token` has {len(token)} letters; expected {SHORTEST_TOKEN} or more, of A to Z, a to z and 0 to 9"
        )
    if not address.local and token is None:
        raise ConfigError(
            f"`host` {host} lets other machines in, which needs a `token` of {SHORTEST_TOKEN} letters or more: "
            "choose one that nobody guesses"
        )
    return address


def default_folder() -> Path:
    """The folder in which programs keep a user's data on this system."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "implanting"
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "implanting"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "implanting"


def run_service(address: Address, data: Path, base: str, ready: Callable[[Address], None]) -> None:
    """Serve until the process is stopped; `ready` is called with the address once it listens."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"the service needs {', '.join(missing)}: pip install 'implanting[serve]'")
    import uvicorn

    from implanting.base import load_base
    from implanting.serve.app import make_app
    from implanting.serve.guard import LOCAL

    network: str | BaseNetwork = base  # the default base is loaded while the page is already there
    if base != ClassifierConfig.base:
        network = load_base(base)
        network.require_features()
    _keep_freed_memory()
    listening = address.listen()
    address = Address(address.host, listening.getsockname()[1], address.token)
    hosts = {*LOCAL, address.host} | ({socket.gethostname()} if not address.local else set())
    app = make_app(data, network, hosts=hosts, any_ip_address=address.everywhere, token=address.token)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=5, server_header=False
    )
    ready(address)
    uvicorn.Server(config).run([listening])


def _keep_freed_memory() -> None:
    """Have glibc keep freed memory for the next photo, which needs as much: new pages cost a fifth of the time."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
    mallopt(M_TRIM_THRESHOLD, 256 * 2**20)


def _own_ip_address(family: socket.AddressFamily) -> str | None:
    """This machine's IP address for others: the one from which it would send to them, where it has a network.

    The name of the machine does not tell: Debian has it mean 127.0.1.1.
    """
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((ELSEWHERE[family], 9))  # chooses a way; a datagram socket sends nothing by this
        except OSError:
            return None
        return str(asking.getsockname()[0])
