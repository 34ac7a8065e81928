"""TLS contexts by the settings of server.properties, from PEM files or PEM text; reloads files that change.

Source: DefaultSslEngineFactory, SslFactory of 4.3.1. New connections use the new certificates. If the new files cannot
be read or do not belong together, the old certificates stay in use.
"""

import logging
import os
import re
import ssl
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from kcore.errors import KcoreError
from kcore.net.limits.bounded_log import BoundedLog

logger = logging.getLogger(__name__)
ClientAuth: TypeAlias = Literal["none", "requested", "required"]
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CHECK_INTERVAL_S: Final = 1.0  # The least time between two checks of the files, which new connections cause.
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s+([A-Za-z0-9/+=\s]*)-----END \1-----")
_LINE: Final = 64
_CERTIFICATE, _KEY = "CERTIFICATE", "PRIVATE KEY"
_NO_KEY: Final = "no PEM of a private key and its certificates, or ssl.key.password is missing or wrong"
_NO_CERTIFICATES: Final = "no PEM of certificates"
_OTHER_KEY: Final = "the private key is not that of the first certificate"
_REASONS: Final = {"NO_CERTIFICATE_ASSIGNED": _OTHER_KEY, "KEY_VALUES_MISMATCH": _OTHER_KEY}
_ENCRYPT: Final = "`openssl pkcs8 -topk8 -v2 aes256 -in OLD -out NEW` makes a PKCS #8 key"


class TlsError(KcoreError, ValueError):
    """Certificates or keys that cannot be used; the message is a clause."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS settings of a listener: certificates and keys in PEM, in files or as text."""

    keystore: str | None = None  # ssl.keystore.location: the private key and its certificates, in one file
    certificate_chain: str | None = None  # ssl.keystore.certificate.chain
    key: str | None = field(default=None, repr=False)  # ssl.keystore.key
    key_password: str | None = field(default=None, repr=False)  # ssl.key.password
    truststore: str | None = None  # ssl.truststore.location
    certificates: str | None = None  # ssl.truststore.certificates
    client_auth: ClientAuth = "none"  # ssl.client.auth
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")  # ssl.enabled.protocols
    verifies_name: bool = True  # ssl.endpoint.identification.algorithm=https, for outgoing connections

    def server_context(self) -> ssl.SSLContext:
        """The TLS context of a listener; raises TlsError for invalid certificates or keys."""
        with _tls_errors():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.options |= ssl.OP_NO_RENEGOTIATION
            self._load(context)
            context.verify_mode = CLIENT_AUTH[self.client_auth]
            if context.verify_mode is not ssl.CERT_NONE:
                self._trust(context, ssl.Purpose.CLIENT_AUTH)
            return context

    def client_context(self) -> ssl.SSLContext:
        """The TLS context of a connection to another server; raises TlsError for invalid certificates or keys."""
        with _tls_errors():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = self.verifies_name
            self._load(context)
            self._trust(context, ssl.Purpose.SERVER_AUTH)
            return context

    def _load(self, context: ssl.SSLContext) -> None:
        context.minimum_version, context.maximum_version = (
            choose(VERSIONS[each] for each in self.versions) for choose in (min, max)
        )
        # Without a password OpenSSL would ask for one at the terminal.
        password = self.key_password or ""
        if self.keystore is not None:
            with _tls_errors(self.keystore, _NO_KEY):
                context.load_cert_chain(self.keystore, password=password)
        elif self.certificate_chain is not None and self.key is not None:
            both = as_lines(self.key) + as_lines(self.certificate_chain)
            with _as_file(both.encode()) as path, _tls_errors(None, _NO_KEY):
                context.load_cert_chain(path, password=password)

    def _trust(self, context: ssl.SSLContext, purpose: ssl.Purpose) -> None:
        if self.truststore is not None:
            with _tls_errors(self.truststore, _NO_CERTIFICATES):
                context.load_verify_locations(self.truststore)
        elif self.certificates is not None:
            context.load_verify_locations(cadata=as_lines(self.certificates))
        else:
            context.load_default_certs(purpose)

    def as_text(self) -> "TlsSettings":
        """The same settings with PEM as text, for a process without the files; TlsError for an unreadable file.

        The text has the certificates that the system trusts, if the settings name none.
        """
        chain, key, trusted = self.certificate_chain, self.key, self.certificates
        if self.keystore is not None:
            chain = key = _read(self.keystore)
        if self.truststore is not None:
            trusted = _read(self.truststore)
        return replace(
            self,
            keystore=None,
            truststore=None,
            certificate_chain=None if chain is None else _only(chain, _CERTIFICATE),
            key=None if key is None else _only(key, _KEY),
            certificates=_only(_of_the_system() if trusted is None else trusted, _CERTIFICATE),
        )

    @property
    def files(self) -> list[str]:
        """The files that are reloaded when they change."""
        return [each for each in (self.keystore, self.truststore) if each is not None]


@contextmanager
def _tls_errors(path: str | None = None, flaw: str = "") -> Iterator[None]:
    """Turns OpenSSL's errors into TlsError with the path of the file, and without keys and passwords.

    `flaw`: the error's text if OpenSSL gives no reason.
    """
    try:
        yield
    except ssl.SSLError as error:
        where = "" if path is None else f"{path}: "
        raise TlsError(
            f"{where}certificate or key: {_REASONS.get(error.reason, error.reason) or flaw or error}"
        ) from None
    except OSError as error:
        raise TlsError(f"{path or error.filename or 'certificate or key'}: {error.strerror or error}") from None
    except TlsError:
        raise
    except ValueError:  # The error's text may have a part of the password.
        raise TlsError("a path has the character NUL, or ssl.key.password has more than 1,024 bytes") from None


def as_lines(pem: str) -> str:
    """PEM with the line breaks that OpenSSL requires: in a properties file, PEM may be one line with spaces."""
    blocks = _blocks(pem)
    if not blocks:
        raise TlsError("no PEM in it")
    return "".join(text for _, text in blocks)


def _blocks(pem: str) -> list[tuple[str, str]]:
    """The kind and the text of each block, with the line breaks that OpenSSL requires."""
    found = [(kind, textwrap.wrap("".join(data.split()), _LINE)) for kind, data in _BLOCK.findall(pem)]
    return [(k, f"-----BEGIN {k}-----\n{chr(10).join(lines)}\n-----END {k}-----\n") for k, lines in found]


def _only(pem: str, kind: str) -> str:
    """The blocks whose kind ends so: all certificates, or the first key; TlsError if there are none."""
    found = [text for each, text in _blocks(pem) if each.endswith(kind)]
    if not found:
        raise TlsError(f"no {kind} in the PEM{f': {_ENCRYPT}' if kind == _KEY else ''}")
    return found[0] if kind == _KEY else "".join(found)


def _read(path: str) -> str:
    with _tls_errors(path):
        return Path(path).read_text("latin-1")


def _of_the_system() -> str:
    """The PEM of the certificates that OpenSSL trusts by default: a file, or a folder with links named by hashes."""
    paths = ssl.get_default_verify_paths()
    found = [paths.cafile] if paths.cafile else sorted(map(str, Path(paths.capath or "").glob("*.[0-9]")))
    if not found:
        raise TlsError("ssl.truststore.location is missing, and this system has no trusted certificates")
    return "".join(map(_read, found))


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """The path of a file in memory with these bytes: OpenSSL's function takes only a path."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


Stamp: TypeAlias = tuple[tuple[int, int, int], ...]


class TlsContext:
    """A TLS context that is rebuilt when a file has changed."""

    def __init__(
        self,
        settings: TlsSettings,
        make: Callable[[TlsSettings], ssl.SSLContext],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`make` is TlsSettings.server_context or client_context; raises TlsError if it fails at the start."""
        self._settings, self._make, self._clock = settings, make, clock
        self._log = BoundedLog(logger)
        self._stamp = self._stamp_now()
        self._context = make(settings)
        self._checked_s = clock()

    def current(self) -> ssl.SSLContext:
        """The context for a new connection; checks the files, at most every CHECK_INTERVAL_S."""
        now_s = self._clock()
        if now_s - self._checked_s >= CHECK_INTERVAL_S:
            self._checked_s = now_s
            self._look()
        return self._context

    def _look(self) -> None:
        stamp = self._stamp_now()
        if stamp is None or stamp == self._stamp:
            return
        try:
            self._context = self._make(self._settings)
        except TlsError as error:
            self._log.error("new certificates cannot be used, the old ones stay in use: %s", error)
            return
        self._stamp = stamp
        self._log.info("new certificates are in use: %s", ", ".join(self._settings.files))

    def _stamp_now(self) -> Stamp | None:
        try:
            found = [os.stat(each) for each in self._settings.files]
        except OSError:
            return None  # A file is being replaced.
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)
