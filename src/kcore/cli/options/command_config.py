"""The option --command-config: a client's TLS and SASL settings, in a properties file as Kafka's tools read it."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from kcore.cli.console import fail
from kcore.cli.options.properties_option import read_client_security
from kcore.errors import KcoreError
from kcore.net.security.client_security import Security

CommandConfigOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Properties of a client: security.protocol, sasl.*, ssl.*.")
]


def security_in(path: Path | None) -> Callable[[], Security] | None:
    """Makes the TLS and SASL state of each connection; None for plaintext. Ends the command for an invalid file."""
    if path is None:
        return None
    try:
        return read_client_security(path).outgoing()
    except KcoreError as error:
        fail(f"{path}: {error}")
