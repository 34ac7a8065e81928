"""The table of kcore's deliberate departures from Kafka's controller. docs/guides/departures.md lists it.

By default the controller follows kcore's rule. Each row has a switch: `KraftControllerConfig.kafka_way` has the names
of the rows that are switched back, for which the controller decides as Kafka's does ("in Kafka's way"). The option is
`./kcore controller kraft run --kafka-way NAME`; the code for switched-back rows is in `kafka_way/`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

RECORD_LIMITS: Final = "record-limits"
CLEAN_BOUNCE_WAITS: Final = "clean-bounce-waits"
FENCES_ONE_BY_ONE: Final = "fences-one-by-one"
FENCES_AFTER_A_PAUSE: Final = "fences-after-a-pause"
FENCES_AT_INTERVALS: Final = "fences-at-intervals"
ACLS_FAIL_TOGETHER: Final = "acls-fail-together"
REFUSED_PARTITIONS_STAY: Final = "refused-partitions-stay"
EARLIER_MOVES: Final = "earlier-moves-stay"
OFFLINE_LEADERS: Final = "offline-directories-lead"
REPLACED_DISKS: Final = "replaced-disks-lead"
CONFIG_OPERATION: Final = "unknown-config-operation"
RECOVERY_STATE: Final = "unknown-recovery-state"
LISTENERS: Final = "unreadable-listeners"
BROKER_SETTINGS: Final = "unreadable-broker-settings"
REFUSED_KRAFT_VERSION: Final = "refused-kraft-version"
REMOVED_VOTERS: Final = "removed-voters-block"
STALE_ELIGIBLE: Final = "stale-eligible-replicas"
SNAPSHOT_ENDS: Final = "transaction-behind-a-snapshot"
ABORTED_RECORDS: Final = "aborted-records-return"
DELETED_SETTINGS: Final = "deleted-topics-settings"
LOST_SCRAM: Final = "lost-scram-credentials"
STANDBYS: Final = "standbys-check-first"
SNAPSHOTS_AT_FIXED_BYTES: Final = "snapshots-at-fixed-bytes"
LEADERS_NAMED: Final = "standbys-name-no-leader"
KILLED_LEADERS: Final = "killed-leaders-are-awaited"
UNBOUNDED_TOKENS: Final = "unbounded-tokens"
UNBOUNDED_DIRECTORIES: Final = "unbounded-directories"
HALF_BOOTSTRAP: Final = "half-a-bootstrap-stops"


class Departure(NamedTuple):
    """One situation: what Kafka does, what kcore does, and why."""

    kafka: str
    kcore: str
    why: str


DEPARTURES: Final[Mapping[str, Departure]] = {
    RECORD_LIMITS: Departure(
        "refuses a request that makes more than 10,000 records, some with error -1",
        "writes them, in a transaction where one batch cannot hold them",
        "a large cluster needs requests of 50,000 partitions",
    ),
    CLEAN_BOUNCE_WAITS: Departure(
        "refuses a broker that restarts after its controlled shutdown until the session of its last incarnation ends",
        "registers the broker as soon as the controller has allowed the last incarnation to stop",
        "a rolling restart waits for nothing",
    ),
    FENCES_ONE_BY_ONE: Departure(
        "if sessions end together, fences their brokers one by one, and may elect a broker that it fences next",
        "fences them in one decision, which elects none of them and keeps an ISR that has only such members",
        "one event in place of many, and any member of the last ISR may lead when it returns",
    ),
    FENCES_AFTER_A_PAUSE: Departure(
        "after a pause of the controller, fences brokers whose heartbeats have arrived but are not read yet",
        "reads the heartbeats that arrived during the pause before it fences a broker",
        "a busy controller is not the brokers' fault",
    ),
    FENCES_AT_INTERVALS: Departure(
        "checks eight times in a session timeout whether a session has ended, and fences a broker up to an eighth of "
        "the timeout late",
        "also checks when the first session ends, as Kafka 3.9 does",
        "the partitions of a lost broker get new leaders as soon as the timeout allows",
    ),
    ACLS_FAIL_TOGETHER: Departure(
        "answers -1 to every entry of a CreateAcls request if one entry has a code that is for filters (ANY, MATCH)",
        "answers INVALID_REQUEST to that entry, and creates the others",
        "an administrator sees which entry is wrong",
    ),
    REFUSED_PARTITIONS_STAY: Departure(
        "refuses a topic of a CreatePartitions if one new partition would have no leader, but creates the partitions "
        "before that partition",
        "creates none of the topic's partitions",
        "what was refused must not happen",
    ),
    EARLIER_MOVES: Departure(
        "keeps the adding and removing replicas of a replaced reassignment if the new one adds or removes none: the "
        "new reassignment may never end, or may remove a replica of its target",
        "drops the replaced reassignment",
        "a reassignment ends with exactly the replicas that it names",
    ),
    OFFLINE_LEADERS: Departure(
        "elects a broker although the heartbeat that unfences it, or the assignment itself, says that the replica's "
        "directory is offline; elects no leader if an assignment brings a replica online",
        "decides elections on the directories' state after the request",
        "a replica on a failed disk must not lead, and one on a good disk must not wait for the next election",
    ),
    REPLACED_DISKS: Departure(
        "elects the last known leader of a partition without ISR when it returns, even if its disk was replaced by an "
        "empty one: the other replicas then truncate all records",
        "forgets a last known leader whose disk was replaced: the partition waits for an unclean election",
        "a lost disk must not delete the records on other disks",
    ),
    CONFIG_OPERATION: Departure(
        "fails on an IncrementalAlterConfigs with an unknown operation, and resigns",
        "refuses the request with INVALID_REQUEST",
        "one bad number must not cost the cluster its controller",
    ),
    RECOVERY_STATE: Departure(
        "fails on an AlterPartition with an unknown leader recovery state, and resigns",
        "refuses the request with INVALID_REQUEST",
        "one bad number must not cost the cluster its controller",
    ),
    LISTENERS: Departure(
        "fails on a registration that has a listener without host or port, or with an unknown security protocol",
        "refuses the registration with INVALID_REGISTRATION",
        "one bad number must not cost the cluster its controller",
    ),
    BROKER_SETTINGS: Departure(
        "fails on a broker's min.insync.replicas that is no number; the value is not checked for unknown brokers",
        "ignores the value when it elects",
        "one bad setting must not cost the cluster its controller",
    ),
    REFUSED_KRAFT_VERSION: Departure(
        "writes a new kraft.version with its next records although it refused the UpdateFeatures that names the "
        "version",
        "does not write it",
        "what was refused must not happen",
    ),
    REMOVED_VOTERS: Departure(
        "refuses a feature level because of a registered controller that lacks the level but is no voter "
        "any more, and does not check that each voter of a dynamic quorum has registered (KAFKA-20295)",
        "checks only the present voters, and refuses while a voter has not registered",
        "a removed controller must not stop an upgrade, but a voter that cannot read the new records must",
    ),
    STALE_ELIGIBLE: Departure(
        "still counts a broker as an eligible leader replica after ELRs were cleared, and writes a change twice when "
        "the broker leaves; if the topic was deleted, the controller fails and resigns",
        "writes the change once, and carries out the request",
        "cleared ELRs and deleted topics must have no effect",
    ),
    SNAPSHOT_ENDS: Departure(
        "halts at each start if its snapshot ends at the offset where a metadata transaction begins",
        "starts; its own transactions begin one record later, so that Kafka's controllers start, too",
        "a controller must start from its own disk",
    ),
    ABORTED_RECORDS: Departure(
        "keeps records of an aborted metadata transaction in its snapshots if it reads further records together with "
        "the abort",
        "leaves the aborted records out",
        "what was aborted must not happen",
    ),
    DELETED_SETTINGS: Departure(
        "keeps the settings of a deleted topic in its snapshots if it reads the topic's creation and deletion "
        "together, as in a replay of a log",
        "drops the settings with the topic",
        "a later topic of that name must not inherit them",
    ),
    LOST_SCRAM: Departure(
        "loses all SCRAM credentials of a mechanism in its snapshots if it reads the removal of the last credential "
        "together with new ones, and applies the removal first",
        "keeps the new credentials",
        "what was created must not be lost",
    ),
    STANDBYS: Departure(
        "checks, on a standby, the principal and parts of the request before it answers NOT_CONTROLLER",
        "answers NOT_CONTROLLER at once to requests that are not only reads",
        "a standby's ACLs may be old, and the client must ask the active controller anyway",
    ),
    SNAPSHOTS_AT_FIXED_BYTES: Departure(
        "writes a snapshot after every metadata.log.max.record.bytes.between.snapshots, whatever the snapshot's size",
        "also waits until the new records have half of the last snapshot's size",
        "a snapshot of 10 million partitions is not written again for every 20 MiB of records",
    ),
    LEADERS_NAMED: Departure(
        "names no leader in a standby's answers to DescribeQuorum and to changes of voters; a broker "
        "whose change of voters a standby refuses forwards the refusal to its client, and asks the same standby until "
        "another request is answered NOT_CONTROLLER",
        "names the leader, as in KIP-595, and says that the node does not lead; a standby answers a broker's change of "
        "voters with NOT_CONTROLLER too, and the broker looks for the active controller",
        "a client finds the leader at once",
    ),
    KILLED_LEADERS: Departure(
        "elects no new active controller before the fetch timeout, even if the process of the last one has ended",
        "elects a new one as soon as the address of the last one refuses connections; if the address only stays "
        "silent, it waits as long as Kafka",
        "a killed controller is replaced in a tenth of the time",
    ),
    UNBOUNDED_TOKENS: Departure(
        "writes any number of delegation tokens for users without permissions, with any number of renewers; "
        "no quota counts them",
        "answers POLICY_VIOLATION above 1,000 tokens of an owner, above 100 renewers and above 4 KiB of their names; "
        "controller_mutation_rate counts each token that is created, renewed or expired",
        "a user without permissions must not fill the metadata log",
    ),
    UNBOUNDED_DIRECTORIES: Departure(
        "registers a broker with as many log directories as it lists",
        "answers INVALID_REGISTRATION above 1,000",
        "a failed directory costs a search through all partitions, and each one costs memory on every node",
    ),
    HALF_BOOTSTRAP: Departure(
        "stops at every start, in release 3.9.1, if the first controller ended within its bootstrap transaction",
        "aborts that transaction and writes the bootstrap records again, as Kafka 4.3.1 does",
        "a cluster whose first controller was killed starts",
    ),
}
"""The departures by name."""

KAFKA_WAY: Final = frozenset(DEPARTURES)
"""The names of all departures; with all of them switched back, the controller decides as Kafka's does."""
