"""Which function handles an event, and which subjects go on after one another: tables, read by ActiveController."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kcore.controller.zk import admin_events, events
from kcore.controller.zk.admin import acls, configs, features, partitions, quotas, reassignments, scram, tokens, topics
from kcore.controller.zk.brokers import broker_changes, log_dirs, producer_ids, shutdown
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.leaders import isr
from kcore.controller.zk.leaders import requested_elections as elections
from kcore.controller.zk.topics import config_changes, deletion, deletion_steps, reassignment, topic_changes
from kcore.controller.zk.zk_context import ControllerContext, Hooks

Handler: TypeAlias = Callable[[ControllerContext, Any], Steps[None]]


def unchanged(context: ControllerContext, event: events.Event) -> Steps[None]:
    """A response that changes nothing: the edge logs errors, and nothing is sent again."""
    yield from ()


HANDLERS: Final[dict[type[events.Event], Handler]] = {
    events.AllocateProducerIds: producer_ids.on_allocate_producer_ids,
    events.AlterConfigs: configs.on_alter_configs,
    events.AlterPartitionReceived: isr.on_alter_partition,
    events.AlterUserScramCredentials: scram.on_alter_user_scram_credentials,
    events.ApiPartitionReassignment: reassignments.on_alter_partition_reassignments,
    events.AutoPreferredReplicaLeaderElection: elections.on_auto_preferred_election,
    admin_events.ExpireTokens: tokens.on_expire_tokens,
    admin_events.TokenRequest: tokens.on_token_request,
    admin_events.AlterClientQuotas: quotas.on_alter_client_quotas,
    admin_events.DescribeClientQuotas: quotas.on_describe_client_quotas,
    admin_events.CreateAcls: acls.on_create_acls,
    events.CreatePartitions: partitions.on_create_partitions,
    events.CreateTopics: topics.on_create_topics,
    admin_events.DeleteAcls: acls.on_delete_acls,
    events.DeleteTopics: topics.on_delete_topics,
    events.DescribeConfigs: configs.on_describe_configs,
    events.DescribeUserScramCredentials: scram.on_describe_user_scram_credentials,
    events.ElectLeaders: elections.on_elect_leaders,
    events.IncrementalAlterConfigs: configs.on_incremental_alter_configs,
    events.IsrChangeNotification: isr.on_isr_change_notification,
    events.ListPartitionReassignments: reassignments.on_list_partition_reassignments,
    events.ReassignmentStep: reassignment.on_reassignment_step,
    events.StopReplicaResponseReceived: deletion.on_stop_replica_response,
    events.Tick: deletion.expire,
    events.UpdateFeatures: features.on_update_features,
    events.TopicDeletion: deletion.on_topic_deletion,
    events.TopicDeletionStep: deletion_steps.on_topic_deletion_step,
    events.ZkPartitionReassignment: reassignment.on_zk_partition_reassignment,
    events.ZkReplicaLeaderElection: elections.on_zk_replica_leader_election,
    events.BrokerChange: broker_changes.on_broker_change,
    events.BrokerModifications: broker_changes.on_broker_modifications,
    events.TopicChange: topic_changes.on_topic_change,
    events.PartitionModifications: topic_changes.on_partition_modifications,
    events.PartitionModificationsStep: topic_changes.on_partition_modifications_step,
    events.ConfigChange: config_changes.on_config_change,
    events.TopicUncleanLeaderElectionEnable: config_changes.on_topic_unclean_enable,
    events.LogDirEventNotification: log_dirs.on_log_dir_event_notification,
    events.LeaderAndIsrResponseReceived: log_dirs.on_leader_and_isr_response,
    events.UpdateMetadataResponseReceived: unchanged,
    events.ControlledShutdownReceived: shutdown.on_controlled_shutdown,
}

# After a failover is done, in this order (initializePartitionReassignments, tryTopicDeletion, onReplicaElection).
RESUMED: Final[tuple[Callable[[ControllerContext], Steps[None]], ...]] = (
    reassignment.resume,
    deletion.resume,
    elections.resume,
)
HOOKS: Final = Hooks(
    brokers_started=(reassignment.resume_for_brokers, deletion.resume_for_brokers),
    deletion_offline=(deletion.fail_replicas,),
    topics_deleted=(reassignment.forget_topics,),
)
