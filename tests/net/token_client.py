"""A client's side of SCRAM with a delegation token; scramp knows no extensions, and kcore's own clients show none."""

from base64 import b64encode

from scramp import ScramClient

from kcore.net.connection import Connection
from kcore.schema.sasl import SaslAuthenticateRequest, SaslHandshakeRequest


class TokenClient:
    """One exchange: `first` is the first message, `final` the second."""

    def __init__(self, token_id: str, hmac: bytes, mechanism: str = "SCRAM-SHA-256") -> None:
        self.client = ScramClient([mechanism], token_id, b64encode(hmac).decode())
        self.first = (self.client.get_client_first() + ",tokenauth=true").encode()
        self.client.client_first_bare += ",tokenauth=true"

    def final(self, server_first: bytes) -> bytes:
        self.client.set_server_first(server_first.decode())
        return self.client.get_client_final().encode()


async def show_token(connection: Connection, token_id: str, hmac: bytes, mechanism: str = "SCRAM-SHA-256") -> int:
    """How long the session is, in ms."""
    assert (await connection.send(SaslHandshakeRequest(mechanism=mechanism))).error_code == 0
    client = TokenClient(token_id, hmac, mechanism)
    answer = await connection.send(SaslAuthenticateRequest(auth_bytes=client.first))
    answer = await connection.send(SaslAuthenticateRequest(auth_bytes=client.final(answer.auth_bytes)))
    assert answer.error_code == 0
    return int(answer.session_lifetime_ms)
