"""What `repr` shows, which ends up in logs and tracebacks, has no secrets."""

import pytest

from kcore.controller.kraft.config import KraftControllerConfig
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.envelope import EnvelopeRequest, EnvelopeResponse
from kcore.schema.metadata_records_security import UserScramCredentialRecord
from kcore.schema.sasl import SaslAuthenticateRequest
from kcore.schema.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion

SECRET = b"swordfish"


@pytest.mark.parametrize(
    "holder",
    [
        AlterUserScramCredentialsRequest(
            upsertions=[ScramCredentialUpsertion(name="a", salt=SECRET, salted_password=SECRET)]
        ),
        UserScramCredentialRecord(name="a", salt=SECRET, stored_key=SECRET, server_key=SECRET),
        CreateDelegationTokenResponse(token_id="a", hmac=SECRET),
        RenewDelegationTokenRequest(hmac=SECRET),
        ExpireDelegationTokenRequest(hmac=SECRET),
        DescribedDelegationToken(token_id="a", hmac=SECRET),
        SaslAuthenticateRequest(auth_bytes=SECRET),
        EnvelopeRequest(request_data=SECRET),
        EnvelopeResponse(response_data=SECRET),
        KraftControllerConfig(
            1, "c", delegation_token_secret_key="swordfish", static_configs={"ssl.key.password": "swordfish"}
        ),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_secrets_are_hidden(holder: object) -> None:
    assert "swordfish" not in repr(holder)


def test_what_is_no_secret_is_shown() -> None:
    shown = repr(ScramCredentialUpsertion(name="alice", mechanism=1, iterations=4096, salt=SECRET))
    assert "name='alice'" in shown
    assert "iterations=4096" in shown
    assert "salt=[hidden]" in shown
