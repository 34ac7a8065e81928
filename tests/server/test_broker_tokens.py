"""Delegation tokens at brokers of a KRaft cluster: who makes them, who is told them, and who comes with them."""

from pathlib import Path

import pytest

from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema.delegation_tokens import CreateDelegationTokenRequest, DescribeDelegationTokenRequest
from net.authority import Authority
from net.loops import story, until
from net.token_client import show_token
from server.secure_cluster import secure_cluster
from server.test_broker_door import NO_TOPIC, creation, first_error


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@story
async def test_delegation_tokens_are_made_and_shown_at_brokers(tmp_path: Path, authority: Authority) -> None:
    asked, described = CreateDelegationTokenRequest(max_lifetime_ms=-1), DescribeDelegationTokenRequest(owners=None)
    async with secure_cluster(tmp_path, authority) as cluster:
        async with await connect("127.0.0.1", cluster.brokers[1].ports["OPEN"]) as stranger:
            for request in (asked, described):
                assert first_error(await stranger.send(request)) is Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        made = await cluster.ask("alice", asked)
        assert (made.error_code, made.principal_name) == (0, "alice")
        await until(lambda: made.token_id in cluster.brokers[2]._loader.image.tokens)
        told = await cluster.ask("alice", described, broker_id=2)
        assert [(each.token_id, each.hmac) for each in told.tokens] == [(made.token_id, made.hmac)]
        security = cluster.security()
        async with await connect("127.0.0.1", cluster.brokers[2].ports["SECURE"], security=security) as connection:
            await show_token(connection, made.token_id, made.hmac, "SCRAM-SHA-512")
            for request in (asked, described):
                assert first_error(await connection.send(request)) is Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            told = await connection.send(creation())
            assert told.topics[0].error_code == NO_TOPIC, "it is alice"
