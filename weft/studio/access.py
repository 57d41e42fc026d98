"""Access control: only the browser of the user who started the studio, on the same machine, gets in.

Pages of other sites in the same browser can send requests to the studio, and a site can point its own host name at
127.0.0.1 to look like the studio (DNS rebinding). So every request must name the studio's address (`Host`), every
request that changes something must come from a page of the studio (`Origin`), and all requests but the first, which
carries a key, must carry the cookie for which the key was exchanged. Other sites cannot send this cookie (`SameSite`),
and scripts cannot read it (`HttpOnly`).

Other users of the machine can read the arguments of every command, listen on every other port of 127.0.0.1 and connect
to the studio. So no command line contains a key (`open_browser_page`). Browsers send a cookie to all ports of its host,
so each start has a random host name, `weft-RANDOM.localhost`: browsers resolve such names to this machine, nobody else
knows the name, and its cookie is sent to no other host.
"""

import hashlib
import html
import os
import secrets
import sys
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.errors import OutputError

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content security policy of the studio's pages: they load only from the studio."""

REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'self'"
)
"""Content security policy of reports, which are self-contained: they load nothing and cannot reach the studio."""

_SAFE = ("GET", "HEAD")
_LOGIN = 4096  # maximum request bytes without a session
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def random_host() -> str:
    """Return an unguessable host name that browsers resolve to this machine."""
    return f"weft-{secrets.token_hex(16)}.localhost"


@dataclass(frozen=True)
class Keys:
    """Credentials: a key in the address or a password, each exchanged for a session cookie."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """Key in the address printed in the terminal; valid until the studio ends."""
    once: dict[str, Path] = field(default_factory=dict)
    """Single-use keys for the browser that the studio opens, each with the page that passes it on."""
    sessions: set[str] = field(default_factory=set)
    """Session cookies; each accepted key or password gets a new one."""
    password: str | None = None
    """Set if other machines can reach the studio."""

    def opens(self, token: str) -> bool:
        """Whether a key is valid; with a password, none is. A single-use key is consumed."""
        if self.password is not None:
            return False
        for each in list(self.once):
            if secrets.compare_digest(token.encode(), each.encode()) and (page := self.once.pop(each, None)):
                page.unlink(missing_ok=True)
                return True
        return secrets.compare_digest(token.encode(), self.token.encode())

    def is_password(self, word: str) -> bool:
        """Whether this is the password, compared in constant time."""
        if self.password is None:
            return False
        return secrets.compare_digest(_digest_word(word), _digest_word(self.password))


def _digest_word(word: str) -> bytes:
    return hashlib.sha256(word.encode()).digest()


class Guarded:
    """ASGI middleware that admits or refuses requests."""

    def __init__(self, app: ASGIApp, keys: Keys, hosts: Sequence[str], largest: int, cookie: str) -> None:
        self._app, self._keys, self._largest, self._cookie = app, keys, largest, cookie
        self._hosts = {host.lower() for host in hosts}
        self.debug = False
        """Whether errors are shown with their text, which may contain private values."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit or refuse a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("content-security-policy", PAGE_POLICY)
            await send(message)

        refusal = self._refusal(scope)
        try:
            await (refusal or self._app)(scope, receive, guarded)
        except Exception as error:
            if self.debug:
                raise
            # The response was a plain 500; the server would log the error text, which may quote a row.
            sys.stderr.write(
                f"a bug in Weft ({type(error).__name__}). Its text is withheld, since it could contain private values; "
                "--debug shows it to the data curator.\n"
            )

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the response to a request that is refused or must log in first; None if it is admitted."""
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This is not the address of the studio.", 421)
        if scope["method"] not in _SAFE:
            origin = headers.get("origin", "")
            if origin.partition("://")[2].lower() not in self._hosts:
                return PlainTextResponse("The studio accepts this request only from its own pages.", 403)
            largest = self._largest if self._known(headers) else min(self._largest, _LOGIN)
            if (wrong := _check_length(headers, largest)) is not None:
                return wrong
        if scope["path"].startswith("/static/"):
            return None  # static files are public
        if self._known(headers):
            return None
        return self._entrance(scope)

    def _known(self, headers: Mapping[str, str]) -> bool:
        try:
            sent = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        cookie = b"" if sent is None else sent.value.encode()
        return any(secrets.compare_digest(cookie, session.encode()) for session in self._keys.sessions)

    def _entrance(self, scope: Scope) -> Response | None:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and given and self._keys.opens(given):
            # No redirect: browsers attribute it to the page that passed on the key, and would not send the new cookie.
            return let_in(HTMLResponse(_read_page("entered")), self._keys, self._cookie)
        if self._keys.password is not None and scope["path"] == "/login":
            return None
        if self._keys.password is not None and scope["method"] in _SAFE:
            return RedirectResponse("/login", 303)
        return HTMLResponse(_read_page("closed"), 403)


def _check_length(headers: Mapping[str, str], largest: int) -> Response | None:
    """Return the refusal of a request that is too long or has no length, before its body is read; else None."""
    length = headers.get("content-length", "")
    if not length.isdigit():
        return PlainTextResponse("The request must state its length (Content-Length).", 411)
    if int(length) > largest:
        return PlainTextResponse(
            f"The file is larger than {largest / 1e9:g} GB. Enter its path instead, so that it is not copied, or "
            "start the studio with a larger --largest.",
            413,
        )
    return None


def let_in(response: Response, keys: Keys, cookie: str) -> Response:
    """Add a new session cookie to a response."""
    session = secrets.token_urlsafe(32)
    keys.sessions.add(session)
    response.set_cookie(cookie, session, httponly=True, samesite="strict", path="/")
    return response


def _read_page(name: str) -> str:
    """Return a page that is shown before the studio is entered."""
    return (Path(__file__).parent / "templates" / f"{name}.html").read_text(encoding="utf-8")


@contextmanager
def open_browser_page(folder: Path, address: str, keys: Keys) -> Iterator[None]:
    """Open the browser at the studio's address, to which a private page adds a single-use key.

    So no command line contains the key. The page is written to `folder`, and removed when it was used or at the end.
    Raises OutputError if other users may have access to the folder, or the page cannot be written.
    """
    if keys.password is not None:
        webbrowser.open(address)
        yield
        return
    key = secrets.token_urlsafe(24)
    page = _write_page(folder.absolute(), f"{address}?token={key}")
    try:
        keys.once[key] = page
        webbrowser.open(page.as_uri())
        yield
    finally:
        page.unlink(missing_ok=True)


def _write_page(folder: Path, address: str) -> Path:
    """Write a page that redirects to an address and that only its owner can read."""
    remedy = "Open the printed address yourself, or choose another --folder."
    page = folder / f"open-{secrets.token_hex(8)}.html"
    try:
        if not _is_private(folder):
            raise OutputError(f"cannot open the browser: other users may have access to {folder}. {remedy}")
        with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(_read_page("opening").format(address=html.escape(address)))
    except OSError as error:
        page.unlink(missing_ok=True)
        reason = error.strerror or type(error).__name__
        raise OutputError(f"cannot open the browser: {folder}: {reason}. {remedy}") from None
    return page


def _is_private(folder: Path) -> bool:
    if os.name != "posix":
        return True  # elsewhere access control lists protect a user's folders
    status = folder.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077
