"""`weft studio`: Weft as a local web application."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.terminal import Terminal
from weft.errors import OutputError

if TYPE_CHECKING:
    from weft.studio.access import Keys

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_PORT_ATTEMPTS = 20
"""Ports to try until one is free for both IPv4 and IPv6."""
PASSWORD = "WEFT_STUDIO_PASSWORD"  # noqa: S105 (the name of a variable)
MIN_PASSWORD_LENGTH = 12


def studio(
    folder: Annotated[
        str, typer.Option("--folder", metavar="DIR", help="Folder for tables and runs; only you can read it.")
    ] = "weft-studio",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free port.")] = 0,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the browser, or only print the address.")
    ] = True,
    largest: Annotated[
        float, typer.Option("--largest", min=0.001, metavar="GB", help="Maximum size of an uploaded file.")
    ] = 4.0,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            show_default="this machine, under a random name",
            help="Address to listen on. Addresses other than this machine require --i-know.",
        ),
    ] = None,
    i_know: Annotated[
        bool,
        typer.Option(
            "--i-know",
            metavar="",
            help=f"Allow access from other machines, with the password in {PASSWORD}, over an unencrypted connection.",
        ),
    ] = False,
    debug: o.Debug = False,
) -> None:
    """Use Weft in the browser: choose a table, compare budgets, run a synthesis and inspect the result.

    Everything stays on this machine, and only the opened browser gets in: the
    address contains a key, which other users of this machine cannot see. If the
    browser cannot resolve the host name in the address, use --host 127.0.0.1. Stop
    the studio with Ctrl-C: active runs are ended safely, and tables and runs are
    kept for the next start.

    \b
    [bold]Examples[/bold]
      weft studio
      weft studio --folder ~/weft-studio --port 8765 --no-open
    """
    terminal = Terminal(debug=debug)
    with guard_command(terminal):
        keys = _make_access_keys(host, i_know)
        address, run = _make_server(Path(folder), host, port, keys, int(largest * 1e9), debug)
        _announce_address(terminal, address, keys, host)
        with ExitStack() as held:
            if open_browser:
                from weft.studio.access import open_browser_page

                try:
                    held.enter_context(open_browser_page(Path(folder), address, keys))
                except OutputError as error:
                    terminal.warn(str(error))
            run()


def _announce_address(terminal: Terminal, address: str, keys: Keys, host: str | None) -> None:
    """Print the address with its key, and warn of other possible access."""
    from rich.text import Text

    printed = address if keys.password is not None else f"{address}?token={keys.token}"
    terminal.show(Text.assemble("The studio is open at ", (printed, "bold")), Text("Stop it with Ctrl-C."))
    if keys.password is not None:
        terminal.warn("other machines can reach the studio, and the connection is not encrypted")
    elif host is not None:
        terminal.warn(
            f"browsers send the studio's cookie to every port of {host}, where other users of this machine may listen. "
            "Leave out --host if your browser can resolve names that end in .localhost"
        )


def _make_access_keys(host: str | None, i_know: bool) -> Keys:
    """Return the access keys; raise UsageError for access from other machines without a password."""
    try:
        from weft.studio.access import Keys
    except ImportError:
        raise o.UsageError("the studio requires optional packages: pip install 'weft[studio]'") from None

    if host is None or host in LOOPBACK:
        return Keys()
    if not i_know:
        raise o.UsageError(
            f"--host {host} would allow access from other machines over an unencrypted connection. Leave it out, or "
            "add --i-know if this is intended"
        )
    password = os.environ.get(PASSWORD, "")
    if len(password) < MIN_PASSWORD_LENGTH:
        raise o.UsageError(
            f"set {PASSWORD} to a password of at least {MIN_PASSWORD_LENGTH} characters, which every visitor must enter"
        )
    return Keys(password=password)


def _make_server(
    folder: Path, host: str | None, port: int, keys: Keys, largest: int, debug: bool
) -> tuple[str, Callable[[], None]]:
    """Open the sockets; return the studio's address and a function that serves it until the end."""
    import uvicorn

    from weft.studio.access import random_host
    from weft.studio.app import create_studio
    from weft.studio.workspace import Desk

    # A browser may resolve these names to IPv4 or IPv6: nobody else may listen on the other one.
    listening = _open_sockets(["127.0.0.1", "::1"] if host in (None, "localhost") else [host], port)
    number = listening[0].getsockname()[1]
    own = host or random_host()
    names = (own,) if keys.password is None else (own, socket.gethostname(), socket.getfqdn(), *LOOPBACK)
    hosts = [f"[{name}]:{number}" if ":" in name else f"{name}:{number}" for name in names]
    app = create_studio(Desk(folder), keys, hosts, largest, f"weft-studio-{number}")
    app.debug = debug
    settings = uvicorn.Config(
        app, log_config=None, log_level="error", access_log=False, server_header=False, timeout_graceful_shutdown=3
    )

    def run() -> None:
        with ExitStack() as held:
            for each in listening:
                held.enter_context(each)
            uvicorn.Server(settings).run(listening)

    return f"http://{hosts[0]}/", run


def _open_sockets(hosts: Sequence[str], port: int) -> list[socket.socket]:
    """Listen on the same port of all hosts that this machine has; raise UsageError if it is taken on one of them."""
    for _ in range(1 if port else MAX_PORT_ATTEMPTS):
        made: list[socket.socket] = []
        try:
            for host in hosts:
                try:
                    made.append(_listen_on(host, made[0].getsockname()[1] if made else port))
                except OSError as error:
                    # This machine lacks the address family, so nobody can listen there.
                    if not made or error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                        raise
            return made
        except OSError as error:
            for each in made:
                each.close()
            if error.errno != errno.EADDRINUSE:
                raise
    taken = f"port {port} is taken" if port else "no port is free"
    raise o.UsageError(f"{taken} on {' and '.join(hosts)}: choose another one with --port")


def _listen_on(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:  # here SO_REUSEADDR would let others take over the port
            made.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE"), 1)  # noqa: B009
        made.bind((host, port))
        made.listen()  # reserves the port
    except OSError:
        made.close()
        raise
    return made
