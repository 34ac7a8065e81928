"""Certificates of an authority that is made for the tests, as PEM files that Kafka reads, too."""

import ssl
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


def pem_of(certificate: trustme.LeafCert, password: bytes | None = None) -> bytes:
    """Private key and certificates: Kafka reads keys as PKCS #8 only."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
    return pem + b"".join(each.bytes() for each in certificate.cert_chain_pems)


class Authority:
    """Signs, and writes what others need of it into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.ca = folder, trustme.CA()
        self.trusted = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.trusted))

    def keystore(self, name: str, *hosts: str, password: bytes | None = None) -> Path:
        """A server's or a client's; its subject is CN=name,OU=tests,O=kcore."""
        path = self.folder / f"{name}.pem"
        made = self.ca.issue_cert(
            *(hosts or ("localhost", "127.0.0.1")),
            common_name=name,
            organization_unit_name="tests",
            organization_name="kcore",
        )
        path.write_bytes(pem_of(made, password))
        return path


def client_tls(
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    *,
    verify_name: bool = True,
) -> ssl.SSLContext:
    """Trusts the authorities in `ca` (those of the system without it); shows its own certificate where it has one.

    PEM files; a key may lie in the certificate's. `verify_name=False` is Kafka's empty
    ssl.endpoint.identification.algorithm. OSError where a file cannot be read or is not PEM.
    """
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = verify_name
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


def server_tls(
    certificate: str | Path, key: str | Path | None = None, *, client_ca: str | Path | None = None
) -> ssl.SSLContext:
    """Shows that certificate; with `client_ca` clients must show one too (ssl.client.auth=required). PEM files."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context
