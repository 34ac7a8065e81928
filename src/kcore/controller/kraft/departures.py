"""Where kcore's controller departs from Kafka's on purpose: the one table. docs/guides/departures.md lists it.

By default kcore's way holds. Each row has a switch: `KraftControllerConfig.kafka_way` has the names of those that are
switched back (`./kcore controller kraft run --kafka-way NAME`). What that needs beside kcore's way is in `kafka_way/`.
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
    """One row: what each does in the same situation."""

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
        "takes it in once the last incarnation was allowed to stop",
        "a rolling restart waits for nothing",
    ),
    FENCES_ONE_BY_ONE: Departure(
        "fences brokers whose sessions end together one by one, and each elects among those that are next",
        "fences them in one decision, which elects none of them and leaves an ISR of them alone as it is",
        "one event in place of many, and any of the last ISR may lead when it is back",
    ),
    FENCES_AFTER_A_PAUSE: Departure(
        "fences at its first look after a pause of its own whoever was not heard of meanwhile",
        "reads the heartbeats that have come meanwhile before it fences anybody",
        "a busy controller is not the brokers' fault",
    ),
    FENCES_AT_INTERVALS: Departure(
        "looks eight times in a session timeout whether a session has ended, and fences a broker up to an eighth late",
        "looks when the first session ends, too, as Kafka 3.9 does",
        "the partitions of a lost broker wait no longer for new leaders than the timeout says",
    ),
    ACLS_FAIL_TOGETHER: Departure(
        "answers -1 to every entry of a CreateAcls request of which one has a code that is for filters (ANY, MATCH)",
        "answers INVALID_REQUEST to that entry, and creates the others",
        "an administrator sees which entry is wrong",
    ),
    REFUSED_PARTITIONS_STAY: Departure(
        "refuses a topic of a CreatePartitions of which one new partition would have no leader, and creates those "
        "before that one",
        "creates none of them",
        "what was refused must not happen",
    ),
    EARLIER_MOVES: Departure(
        "goes on adding what a reassignment adds that is replaced by one that adds nothing, and removing likewise: the "
        "new one may never end, or may remove a replica of its target",
        "forgets the reassignment that is replaced",
        "a reassignment ends, and with the replicas that it names",
    ),
    OFFLINE_LEADERS: Departure(
        "elects a broker for a leaderless partition whose directory is reported as offline by the same heartbeat that "
        "unfences the broker, or by the assignment itself; and none where an assignment brings the replica online",
        "elects by the directories as they are after the request",
        "a replica on a failed disk must not lead, nor one on a good disk wait for the next election",
    ),
    REPLACED_DISKS: Departure(
        "elects the last known leader of a partition without ISR once it can, also where its disk was replaced by an "
        "empty one: the other replicas give up all records",
        "forgets such a leader: the partition waits for an unclean election",
        "a lost disk must not take what other disks have",
    ),
    CONFIG_OPERATION: Departure(
        "falls over an IncrementalAlterConfigs with an operation that it does not know, and gives up leadership",
        "refuses the request with INVALID_REQUEST",
        "one bad number must not cost the cluster its controller",
    ),
    RECOVERY_STATE: Departure(
        "falls over an AlterPartition with a leader recovery state that it does not know, and gives up leadership",
        "refuses the request with INVALID_REQUEST",
        "one bad number must not cost the cluster its controller",
    ),
    LISTENERS: Departure(
        "falls over a registration with a listener without host or port, or of an unknown security protocol",
        "refuses the registration with INVALID_REGISTRATION",
        "one bad number must not cost the cluster its controller",
    ),
    BROKER_SETTINGS: Departure(
        "falls over a broker's min.insync.replicas that is no number, which nobody checks for unknown brokers",
        "passes over such a value when it elects",
        "one bad setting must not cost the cluster its controller",
    ),
    REFUSED_KRAFT_VERSION: Departure(
        "writes a new kraft.version with its next records though the UpdateFeatures that names it was refused",
        "writes none",
        "what was refused must not happen",
    ),
    REMOVED_VOTERS: Departure(
        "refuses a new level of a feature that a controller does not support which has registered once and is no voter "
        "any more, and does not ask whether each voter of a dynamic quorum has registered (KAFKA-20295)",
        "asks the present voters alone, and refuses while one of them has not registered",
        "a removed controller must not stop an upgrade, and one that cannot read the new records must",
    ),
    STALE_ELIGIBLE: Departure(
        "goes on taking a broker for an eligible leader replica once ELRs were cleared, and writes a change twice when "
        "that broker goes; of a deleted topic it falls over, and gives up leadership",
        "writes the change once, and carries out the request",
        "what is cleared or deleted is gone",
    ),
    SNAPSHOT_ENDS: Departure(
        "halts at each start from a snapshot that ends where a metadata transaction begins",
        "starts; its own transactions begin one record later, so that Kafka's controllers start, too",
        "a controller must start from its own disk",
    ),
    ABORTED_RECORDS: Departure(
        "takes records of an aborted metadata transaction into its snapshots where it reads further records along with "
        "the abort",
        "leaves them out",
        "what was aborted must not happen",
    ),
    DELETED_SETTINGS: Departure(
        "keeps in its snapshots the settings of a topic that it sees created and deleted at once, as when it replays a "
        "log",
        "drops them with the topic",
        "a later topic of that name must not inherit them",
    ),
    LOST_SCRAM: Departure(
        "leaves out of its snapshots all SCRAM credentials of a mechanism where it reads the removal of the last one "
        "along with new ones, and takes the removal first",
        "keeps the new ones",
        "what was created must not be lost",
    ),
    STANDBYS: Departure(
        "checks on a standby who asks, and parts of the request, before it answers NOT_CONTROLLER",
        "answers NOT_CONTROLLER at once to what is not only read",
        "a standby's ACLs may be old, and the client is to ask the active controller anyway",
    ),
    SNAPSHOTS_AT_FIXED_BYTES: Departure(
        "writes a snapshot whenever metadata.log.max.record.bytes.between.snapshots have come, however large it is",
        "waits until they are also half of the last snapshot's size",
        "a cluster of 10 million partitions is not written anew for every 20 MiB of records",
    ),
    LEADERS_NAMED: Departure(
        "names no leader in a standby's answer to DescribeQuorum, and does not say why it changes no voters; a broker "
        "that asks a standby to change voters hands the refusal on to its client, and stays with that standby until "
        "another request is answered NOT_CONTROLLER",
        "names the leader, as KIP-595 has it, and says that the node does not lead; a broker is answered "
        "NOT_CONTROLLER to a change of voters, too, and looks for the active controller",
        "a client finds the leader at once",
    ),
    KILLED_LEADERS: Departure(
        "elects no new active controller before the fetch timeout, also where the last one's process has ended",
        "elects one as soon as the last one's address refuses connections; one that is only silent it awaits as long",
        "a killed controller is replaced in a tenth of the time",
    ),
    UNBOUNDED_TOKENS: Departure(
        "writes delegation tokens of users without rights, as many as they ask for and with as many renewers as they "
        "name; no quota counts them",
        "answers POLICY_VIOLATION above 1,000 tokens of an owner, above 100 renewers and above 4 KiB of their names; "
        "controller_mutation_rate counts each token that is made, renewed or expired",
        "a user without rights must not fill the metadata log",
    ),
    UNBOUNDED_DIRECTORIES: Departure(
        "registers a broker with as many log directories as it lists",
        "answers INVALID_REGISTRATION above 1,000",
        "each is looked for in all partitions when it fails, and takes memory of every node",
    ),
    HALF_BOOTSTRAP: Departure(
        "stops at every start, as release 3.9.1, where the first controller ended within its bootstrap transaction",
        "aborts that transaction and writes the bootstrap records again, as Kafka 4.3.1 does",
        "a cluster whose first controller was killed starts",
    ),
}
"""By name."""

KAFKA_WAY: Final = frozenset(DEPARTURES)
"""All switched back: the controller decides as Kafka's does."""
