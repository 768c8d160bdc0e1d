"""`implanting serve`: the page and the HTTP API."""

import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from implanting.cli.parsing import parse
from implanting.config import ClassifierConfig, ThreadsConfig
from implanting.console import print_text, say
from implanting.runtime import set_threads
from implanting.serve import Address, address_of, default_folder, run_service


@dataclass(frozen=True)
class Serve:
    """A page to make classifiers by dropping photos, and the same as an HTTP API for programs.

    Everything stays on this machine: photos and changes are kept in one folder, and nothing is loaded from elsewhere.
    """

    data: Path | None = None
    """The folder for projects and photos; default: the user's data folder."""
    host: str = "127.0.0.1"
    """Address to listen at; any other than this machine's own needs --token."""
    port: int = 8765
    """Port to listen at; 0 is any that is free."""
    token: str | None = None
    """Token that a browser or program must present; 12 letters and digits or more."""
    base: str = ClassifierConfig.base
    """The base network: a name or a file."""
    open: bool = True
    """Open the page in the browser."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)


def main(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C."""
    command = parse(Serve, "serve", arguments)
    set_threads(command.run.threads)
    data = command.data or default_folder()

    def ready(address: Address) -> None:
        print_text(f"serving at {address.url}")
        if address.url_elsewhere:
            print_text(f"for other machines at {address.url_elsewhere}")
        sys.stdout.flush()  # whoever started it may be reading from a pipe
        say(f"projects and photos are kept in {data}; Ctrl-C ends the service")
        if command.open:
            threading.Thread(target=webbrowser.open, args=(address.url,), daemon=True).start()

    run_service(address_of(command.host, command.port, command.token), data, command.base, ready)
    return 0
