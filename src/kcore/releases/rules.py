"""The rules that differ between releases, each as a field that says the rule."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one release.

    A field is False in a release without the rule. The module of a release sets the fields that the release changes.
    """

    elr_since: str  # The first metadata.version with eligible leader replicas (KIP-966).

    # Modes, logs and snapshots.
    migrates_from_zookeeper: bool = False  # Logs, snapshots and registrations say the state of a migration (KIP-866).
    bootstraps_from_snapshot: bool = False  # A formatted directory has its first records in snapshot 0-0.
    levels_may_be_unnamed: bool = False  # Logs, snapshots and brokers of the oldest levels name no metadata.version.

    # Elections, reassignments and directories.
    elr_is_a_feature: bool = False  # eligible.leader.replicas.version enables ELR, not a setting (KIP-966).
    knows_no_clean_shutdown: bool = False  # Every restart of a broker is unclean, if ELR is supported at all.
    elects_dead_last_known_leader: bool = False  # The last known leader is elected without a check that it may lead.
    last_known_leader_of_empty_isr: bool = False  # Stored when the ISR becomes empty, not when the leader leaves.
    assignments_clear_elr: bool = False  # AssignReplicasToDirs clears a partition's ELR, as if ELR were disabled.
    reassignment_awaits_all_replicas: bool = False  # A reassignment completes when all replicas are in sync.
    has_cordoned_directories: bool = False  # A broker with cordoned directories only gets no replicas (KIP-1066).

    # Features.
    kraft_version_is_a_feature: bool = False  # kraft.version is a FeatureLevelRecord, not raft's (KAFKA-18979).
    updates_features_together: bool = False  # UpdateFeatures makes all updates of a request or none.
    features_have_dependencies: bool = False  # A feature's level needs levels of other features (KIP-1022).
    names_both_levels_of_downgrade: bool = False  # A refused downgrade of metadata.version names both levels.

    # Brokers and periodic tasks.
    only_unfenced_brokers_have_sessions: bool = False  # Fencing ends a session, unfencing begins one.
    runs_tasks_when_needed: bool = False  # Elections and fencing are scheduled, not tried at intervals.
    incarnation_hash_begins_with_1: bool = False  # BrokerIdAndEpoch uses Objects.hash, not a Java record's hash code.
    registration_is_atomic: bool = False  # All records of a BrokerRegistration are one atomic batch.
    unregistration_has_message: bool = False  # A refused UnregisterBroker has an error message.

    # Settings and ACLs.
    controllers_are_nodes: bool = False  # A registered controller may have settings of its own.
    limits_length_of_values: bool = False  # A setting has at most 32,767 UTF-16 units.
    metrics_refuse_empty_members: bool = (
        False  # A list of a client metrics subscription has no empty member (KIP-1161).
    )
    remote_storage_needs_delete_policy: bool = False  # With tiered storage, cleanup.policy is "delete".
    remote_storage_takes_empty_policy: bool = False  # With tiered storage, cleanup.policy may be empty (KIP-1161).
    advertised_listeners_are_dynamic: bool = False  # A node applies new advertised.listeners at run time.
    logger_error_names_own_id_twice: bool = False  # Instead of the id that the client sent.
    describes_in_java_order: bool = False  # DescribeConfigs lists settings in the order of Java's HashMap, not Scala's.
    describes_raw_client_metrics: bool = False  # DescribeConfigs shows only the values that a subscription sets.
    describes_synonyms_of_groups: bool = False  # DescribeConfigs shows a group's synonyms in server.properties.
    has_two_phase_commit_operation: bool = False  # ACLs have the operation TWO_PHASE_COMMIT (KIP-939).
    checks_acl_hosts: bool = False  # An ACL's host is not empty; with a slash it is a block of addresses.
    refuses_infinite_quotas: bool = False  # A quota is a finite number.
    checks_own_group_configs: bool = False  # A group's settings are checked without the node's.

    # Assignments.
    refuses_cordoned_assignments: bool = False  # A manual assignment names no broker with cordoned directories only.
    counts_new_partitions_first: bool = False  # CreatePartitions with too many new partitions is refused as a whole.
