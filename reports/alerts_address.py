"""A POST to an address that a team typed in, which must not become a way into the operator's own network.

The name is resolved once and the connection goes to that very address, so that it cannot turn internal between check
and use. Redirects are not followed. Private, loopback, link-local and other special addresses are refused.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from contextlib import suppress
from threading import Timer
from urllib.parse import SplitResult, quote, urlsplit

TIMEOUT_S = 10.0  # of one step: connecting, the next bytes
WHOLE_S = 20.0  # of the whole call: an answer that trickles in must not hold a thread
MOST_READ = 2000  # bytes of an answer that are looked at


class Refused(Exception):
    """The address may not be called; the text says why."""


_INTERNAL = "The address leads into an internal network. KVDIAG_INTERNAL_WEBHOOKS=1 allows that."


def checked_url(url: str, *, allow_internal: bool) -> SplitResult:
    """The parts of a URL that may be called at all: http or https, with a host, without user and password.

    Where a name leads is only known when it is called; an address that says by itself that it is internal is refused.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("The address is no valid URL.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused("The address must begin with https:// or http:// and name a host.")
    if parts.username or parts.password:
        raise Refused("The address must not hold a user name or password.")
    if port == 0:
        raise Refused("The address has no usable port.")
    if not allow_internal and _is_internal(parts.hostname):
        raise Refused(_INTERNAL)
    return parts


def _is_internal(host: str) -> bool:
    """Whether a host is internal by what is written: this machine's name, or an internal address."""
    if f".{host}".endswith(".localhost"):
        return True
    try:
        return not is_outside(host)
    except ValueError:
        return False  # a name


def is_outside(address: str) -> bool:
    """True for an address of the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is not None:
            return is_outside(str(inner))
        if ip in ipaddress.ip_network("64:ff9b::/96"):  # NAT64 hands these on to IPv4
            return is_outside(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))
        if ip.is_site_local:  # fec0::/10, the older form of fc00::/7
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def resolve(host: str, port: int, *, allow_internal: bool) -> str:
    """The one address that will be called. Raises Refused when the name is unknown or any of its addresses internal."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Refused(f"The name {host} is not known.") from None
    addresses = [str(each[4][0]) for each in found]
    if not addresses:
        raise Refused(f"The name {host} has no address.")
    if not allow_internal and not all(is_outside(address) for address in addresses):
        raise Refused(_INTERNAL)
    return addresses[0]


class _Connection(http.client.HTTPConnection):
    """A connection to a resolved address; with TLS the certificate is checked against the name."""

    def __init__(self, host: str, address: str, port: int, *, tls: bool) -> None:
        super().__init__(host, port, timeout=TIMEOUT_S)
        self._address, self._tls, self.given_up = address, tls, False

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self.given_up:  # before there was a socket to shut
            raise TimeoutError("it took too long")
        if self._tls:
            context = ssl.create_default_context()
            # the handshake after the socket is in its place, where give_up() reaches it
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock.do_handshake()

    def give_up(self) -> None:
        """Ends the call from another thread: whoever reads sees the other side gone."""
        self.given_up = True
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


def post(url: str, body: bytes, headers: dict[str, str], *, allow_internal: bool = False) -> int:
    """POST once; the status of the answer. Raises Refused, or OSError when the other side does not answer."""
    parts = checked_url(url, allow_internal=allow_internal)
    tls = parts.scheme == "https"
    host, port = str(parts.hostname), parts.port or (443 if tls else 80)
    connection = _Connection(host, resolve(host, port, allow_internal=allow_internal), port, tls=tls)
    path = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe="/?%:@!$&'()*+,;=~[]")
    timer = Timer(WHOLE_S, connection.give_up)
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "kvdiag", **headers})
        answer = connection.getresponse()
        answer.read(MOST_READ)
        if connection.given_up:  # an end within the headers looks like their end
            raise TimeoutError("it took too long")
    except http.client.HTTPException as problem:
        raise OSError(f"the answer was no HTTP: {type(problem).__name__}") from None
    finally:
        timer.cancel()
        connection.close()
    return answer.status
