"""Requests that are well encoded and meant ill, for hypothesis: what a cluster knows beside what nobody can mean."""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from controller.kraft.active import Active
from controller.kraft.broker_clusters import uuid
from controller.kraft.runtime import BOOTSTRAP
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.handlers import HANDLERS
from kcore.releases.known import RELEASES
from kcore.schema import acls, broker_lifecycle, configs, partitions, quotas, scram, topics
from kcore.schema.delegation_tokens import CreateDelegationTokenRequest
from kcore.schema.kinds import INTEGER_RANGES, Kind
from kcore.schema.structure import Message
from kcore.types import Uuid
from kcore.wire.plan import Step, StructPlan, plan

KINDS: Final = sorted(HANDLERS, key=lambda kind: kind.__name__)
LEVELS: Final = {"4.3.1": (7, 29, 30), "4.1.2": (27,), "3.9.1": (1, 21)}  # metadata.version by release.
STATES: Final = [(release, level) for release, levels in LEVELS.items() for level in levels]
LONGEST: Final = "y" * 32_767

TEXTS: Final = (
    *(
        "",
        "t",
        "u.v",
        "u_v",
        "t",
        "t",
        ".",
        "..",
        "x" * 249,
        "x" * 250,
        LONGEST,
        "ü€" * 6_000,
        "a\nb",
        "nul\0",
        " ",
        ",",
    ),
    *("__cluster_metadata", "__consumer_offsets", "*", "1", "2", "5", "-1", "99999999999", "1e400", "NaN", "true"),
    *(
        "alice",
        "User:alice",
        "User:*",
        "User:",
        ":",
        "User",
        "kafka-cluster",
        "CONTROLLER",
        "PLAINTEXT",
        "h",
        "0.0.0.0",
    ),
    *("metadata.version", "kraft.version", "group.version", "eligible.leader.replicas.version", "a cluster"),
    *("min.insync.replicas", "cleanup.policy", "compact", "retention.ms", "unclean.leader.election.enable", "log.dirs"),
    *("producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate", "user", "client-id", "ip", "::1"),
    *("follower.replication.throttled.replicas", "advertised.listeners", "log.cleaner.threads", "leader.imbalance"),
)
FLOATS: Final = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, -1.0, 0.5, 1024.0, 5e-324, 1.7e308, 2.0**63)
INTEGERS: Final = (-(2**63), -(2**31), -129, -2, -1, 0, 1, 2, 3, 4, 5, 6, 12, 100, 1_000, 2**31 - 1, 2**40, 2**63 - 1)
NUMBERS: Final = {
    **{name: (-1, 0, 1, 2, 3, 4, 5, 6, 7, 2**31 - 1, -(2**31)) for name in ("broker_id", "broker_ids", "replicas")},
    **{name: (-1, 0, 1, 3, 4, 12, 1_000, 2**31 - 1, -(2**31)) for name in ("num_partitions", "count")},
    "new_isr": (1, 2, 3, 4, -1, 2**31 - 1),
    "partition_index": (0, 1, 2, 3, -1, 2**31 - 1, -(2**31)),
    "iterations": (0, -1, 4_096, 16_384, 16_385, 2**31 - 1),
}


@cache
def log_of(release: str, level: int) -> bytes:
    """The log of a cluster with one of everything."""
    bootstrap = Bootstrap.of_features({"metadata.version": level}, "a test") if level != 30 else BOOTSTRAP
    active = Active(bootstrap=bootstrap, **settings_of(release))
    for broker_id in range(1, 6):
        epoch = active.answer(a_registration(broker_id)).broker_epoch
        if broker_id < 4:
            end = active.controller.image.end_offset
            beat = broker_lifecycle.BrokerHeartbeatRequest(
                broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=end
            )
            assert not active.answer(beat).is_fenced
    for request in _contents():
        active.answer(request, None, is_forwarded=True)
    active.answer(broker_lifecycle.UnregisterBrokerRequest(broker_id=5))
    image = active.controller.image
    assert (len([*image.brokers]), image.table.partition_count) == (4, 6)
    assert (image.acls and image.quotas and image.scram and image.configs and image.tokens) or level < 30
    return active.log


def settings_of(release: str) -> dict[str, Any]:
    return {
        "release": release,
        "supported_features": RELEASES[release].supported_features,
        "delegation_token_secret_key": "swordfish",
        "has_authorizer": True,
        "super_users": ("User:ANONYMOUS",),
    }


def a_registration(broker_id: int) -> broker_lifecycle.BrokerRegistrationRequest:
    features = [
        broker_lifecycle.Feature(name=name, min_supported_version=0, max_supported_version=99)
        for name in ("metadata.version", "group.version", "eligible.leader.replicas.version")
    ]
    return broker_lifecycle.BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id="a cluster",
        incarnation_id=uuid(broker_id),
        listeners=[broker_lifecycle.Listener(name="PLAINTEXT", host="h", port=9, security_protocol=0)],
        features=features,
        log_dirs=[uuid(1000 + broker_id)],
    )


def _contents() -> list[Message]:
    """The requests of administrators."""
    new = [
        topics.CreatableTopic(name="t", num_partitions=3, replication_factor=2),
        topics.CreatableTopic(name="u.v", num_partitions=3, replication_factor=1),
    ]
    minimum = configs.IncrementalAlterConfigsRequestAlterableConfig(name="min.insync.replicas", value="2")
    of_topic = configs.IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=2, resource_name="t", configs=[minimum]
    )
    acl = acls.AclCreation(
        resource_type=2,
        resource_name="t",
        resource_pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    entity = [quotas.EntityData(entity_type="user", entity_name="alice")]
    rate = quotas.OpData(key="producer_byte_rate", value=1024.0)
    credential = scram.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4_096, salt=b"salt", salted_password=b"password"
    )
    return [
        topics.CreateTopicsRequest(topics=new),
        configs.IncrementalAlterConfigsRequest(resources=[of_topic]),
        acls.CreateAclsRequest(creations=[acl]),
        quotas.AlterClientQuotasRequest(entries=[quotas.AlterClientQuotasRequestEntryData(entity=entity, ops=[rate])]),
        scram.AlterUserScramCredentialsRequest(upsertions=[credential]),
        CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=-1),
        partitions.AlterPartitionReassignmentsRequest(
            topics=[
                partitions.ReassignableTopic(
                    name="u.v", partitions=[partitions.ReassignablePartition(partition_index=0, replicas=[1, 2, 3])]
                )
            ]
        ),
    ]


def uuids_of(active: Active) -> tuple[Uuid, ...]:
    """Those that the cluster knows, and those that stand for nothing."""
    image = active.controller.image
    known = (
        uuid(1),
        uuid(9),
        *(uuid(1000 + each) for each in range(1, 6)),
        *(each for each in image.topics.ids if each),
    )
    return *known, *image.acls, Uuid(bytes(16)), Uuid(bytes(15) + b"\1"), Uuid(b"\xff" * 16)


def requests(active: Active, kind: type[Message]) -> st.SearchStrategy[tuple[Message, int]]:
    """Requests of a kind with their versions, in all versions that the release serves."""
    apis = RELEASES[active.controller.config.node.release].apis
    lowest, highest = apis.get(kind.__name__.removesuffix("Request"), (0, 0))
    lowest, highest = max(lowest, kind.versions.lowest), min(highest, kind.versions.highest)
    image = active.controller.image
    epochs = tuple(int(epoch) for epoch in image.brokers.epochs)
    secrets = tuple(active.controller.context.tokens.hmac_of(token_id) for token_id in image.tokens)
    pools = _Pools(epochs, uuids_of(active), secrets)
    return st.integers(lowest, highest).flatmap(
        lambda version: st.tuples(pools.messages(plan(kind, version)), st.just(version))
    )


class _Pools:
    """Values by the name of a field, else by its kind."""

    def __init__(self, epochs: tuple[int, ...], uuids: tuple[Uuid, ...], secrets: tuple[bytes, ...]) -> None:
        self._epochs, self._uuids, self._secrets = epochs, uuids, secrets

    def messages(self, plan: StructPlan) -> st.SearchStrategy[Any]:
        fields = {each.field.name: self._values(each.field.name, each.step) for each in (*plan.in_line, *plan.tagged)}
        return st.builds(plan.struct, **fields)

    def _values(self, name: str, step: Step) -> st.SearchStrategy[Any]:
        if step.struct is not None:
            some = self.messages(step.struct)
        elif step.element is not None:
            few = st.lists(self._values(name, step.element), max_size=3)
            some = few | few | few | few.map(lambda values: values * 70)
        elif step.kind in INTEGER_RANGES:
            lowest, highest = INTEGER_RANGES[step.kind]
            pool = NUMBERS.get(name, INTEGERS) + (self._epochs if name.endswith("epoch") else ())
            some = st.sampled_from([each for each in pool if lowest <= each <= highest])
        else:
            some = _PLAIN[step.kind](self)
        return st.none() | some if step.nullable else some

    def texts(self) -> st.SearchStrategy[str]:
        return st.sampled_from(TEXTS)

    def uuids(self) -> st.SearchStrategy[Uuid]:
        return st.sampled_from(self._uuids)

    def secrets(self) -> st.SearchStrategy[bytes]:
        return st.sampled_from((b"", b"x", b"salt", bytes(70_000), *self._secrets))


_PLAIN: Final[dict[Kind, Callable[[_Pools], st.SearchStrategy[Any]]]] = {
    Kind.BOOL: lambda pools: st.booleans(),
    Kind.FLOAT64: lambda pools: st.sampled_from(FLOATS),
    Kind.UUID: _Pools.uuids,
    Kind.STRING: _Pools.texts,
    Kind.BYTES: _Pools.secrets,
    Kind.RECORDS: _Pools.secrets,
}
