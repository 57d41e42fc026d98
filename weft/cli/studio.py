"""`weft studio`: the whole road as pages of a browser, on this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.terminal import Terminal

if TYPE_CHECKING:
    from weft.studio.safety import Keys

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PASSWORD = "WEFT_STUDIO_PASSWORD"  # noqa: S105 (the name of a variable)
SHORTEST = 12
"""Signs that a password needs at least."""


def studio(
    folder: Annotated[
        str, typer.Option("--folder", metavar="DIR", help="Where tables and runs are kept; only you may read it.")
    ] = "weft-studio",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = 0,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the browser, or only print the address.")
    ] = True,
    largest: Annotated[
        float, typer.Option("--largest", min=0.001, metavar="GB", help="Largest file that a page may send.")
    ] = 4.0,
    host: Annotated[
        str, typer.Option("--host", help="Where to listen. Other than this machine itself only with --i-know.")
    ] = LOOPBACK[0],
    i_know: Annotated[
        bool,
        typer.Option(
            "--i-know",
            metavar="",
            help=f"Let other machines in, with the password in {PASSWORD}, over a connection that is not encrypted.",
        ),
    ] = False,
    debug: o.Debug = False,
) -> None:
    """Open a page in the browser: choose a table, see what a budget buys, press a button, look at the result.

    Everything stays on this machine, and only the browser that is opened may come
    in: the address carries a key. Stop it with Ctrl-C; runs under way are ended
    safely, and everything is there again at the next start.

    \b
    [bold]Examples[/bold]
      weft studio
      weft studio --folder ~/weft-studio --port 8765 --no-open
    """
    terminal = Terminal(debug=debug)
    with guard(terminal):
        keys = _keys(host, i_know)
        address, run = _server(Path(folder), host, port, keys, int(largest * 1e9), debug)
        from rich.text import Text

        terminal.show(Text.assemble("The studio is open at ", (address, "bold")), Text("Stop it with Ctrl-C."))
        if keys.password is not None:
            terminal.warn("other machines can reach the studio, and nothing on the way is encrypted")
        if open_browser:
            import webbrowser

            # The words of a command are for all users of the machine to see: a key that is used up at once.
            webbrowser.open(address.replace(keys.token, keys.once[0]))
        run()


def _keys(host: str, i_know: bool) -> Keys:
    """Return what lets a browser in; refuse to listen to others without a password."""
    try:
        from weft.studio.safety import Keys
    except ImportError:
        raise o.UsageError("the studio needs some more packages: pip install 'weft[studio]'") from None

    if host in LOOPBACK:
        return Keys()
    if not i_know:
        raise o.UsageError(
            f"--host {host} would let other machines in, over a connection that is not encrypted. Leave it out; or, if "
            "you know what you do, add --i-know"
        )
    password = os.environ.get(PASSWORD, "")
    if len(password) < SHORTEST:
        raise o.UsageError(
            f"put a password of at least {SHORTEST} signs into {PASSWORD}: everybody will be asked for it"
        )
    return Keys(password=password)


def _server(
    folder: Path, host: str, port: int, keys: Keys, largest: int, debug: bool
) -> tuple[str, Callable[[], None]]:
    import uvicorn

    from weft.studio.app import create
    from weft.studio.desk import Desk

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    number = listening.getsockname()[1]
    names = LOOPBACK if host in LOOPBACK else (host, socket.gethostname(), socket.getfqdn(), *LOOPBACK)
    hosts = [f"[{name}]:{number}" if ":" in name else f"{name}:{number}" for name in names]
    app = create(Desk(folder), keys, hosts, largest, f"weft-studio-{number}")
    app.debug = debug
    settings = uvicorn.Config(
        app, log_config=None, log_level="error", access_log=False, server_header=False, timeout_graceful_shutdown=3
    )
    shown = f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
    address = f"http://{shown}/" + ("" if keys.password is not None else f"?token={keys.token}")

    def run() -> None:
        with listening:
            uvicorn.Server(settings).run([listening])

    return address, run
