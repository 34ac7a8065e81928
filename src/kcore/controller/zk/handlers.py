"""The tables that ActiveController reads: handlers of requests and events, last steps of a failover, hooks."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kcore import schema
from kcore.controller.zk import events
from kcore.controller.zk.admin import features, partitions, reassignments, tokens, topics
from kcore.controller.zk.admin.configs import controller_node
from kcore.controller.zk.brokers import broker_changes, log_dirs, producer_ids
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.leaders import isr
from kcore.controller.zk.leaders import requested_elections as elections
from kcore.controller.zk.topics import deletion, deletion_steps, reassignment, topic_changes
from kcore.controller.zk.zk_context import ControllerContext, ControllerHooks
from kcore.node.zk.admin import acls, quotas, scram
from kcore.node.zk.admin.configs import alter_configs, describe_configs, replace_configs
from kcore.schema.structure import Message

RequestHandler: TypeAlias = Callable[[ControllerContext, Any], Steps[Message | None]]
"""Returns the response; None if the handler has sent it, or sends it once topics have leaders or are deleted."""
Handler: TypeAlias = Callable[[ControllerContext, Any], Steps[None]]


REQUEST_HANDLERS: Final[dict[type[Message], RequestHandler]] = {
    schema.AllocateProducerIdsRequest: producer_ids.on_allocate_producer_ids,
    schema.AlterClientQuotasRequest: lambda context, event: quotas.alter(event.request, context.mutation_rates),
    schema.AlterConfigsRequest: lambda context, event: replace_configs(controller_node(context, event), event.request),
    schema.AlterPartitionReassignmentsRequest: reassignments.on_alter_partition_reassignments,
    schema.AlterPartitionRequest: isr.on_alter_partition,
    schema.AlterUserScramCredentialsRequest: lambda context, event: scram.alter(event.request),
    schema.ControlledShutdownRequest: broker_changes.on_controlled_shutdown,
    schema.CreateAclsRequest: lambda context, event: acls.create_acls(context.acls, event.request),
    schema.CreateDelegationTokenRequest: tokens.on_token_request,
    schema.CreatePartitionsRequest: partitions.on_create_partitions,
    schema.CreateTopicsRequest: topics.on_create_topics,
    schema.DeleteAclsRequest: lambda context, event: acls.delete_acls(context.acls, event.request),
    schema.DeleteTopicsRequest: topics.on_delete_topics,
    schema.DescribeClientQuotasRequest: lambda context, event: quotas.describe(event.request),
    schema.DescribeConfigsRequest: lambda context, event: describe_configs(
        controller_node(context, event), event.request, event.version
    ),
    schema.DescribeDelegationTokenRequest: tokens.on_token_request,
    schema.DescribeUserScramCredentialsRequest: lambda context, event: scram.describe(event.request),
    schema.ElectLeadersRequest: elections.on_elect_leaders,
    schema.ExpireDelegationTokenRequest: tokens.on_token_request,
    schema.IncrementalAlterConfigsRequest: lambda context, event: alter_configs(
        controller_node(context, event), event.request
    ),
    schema.ListPartitionReassignmentsRequest: reassignments.on_list_partition_reassignments,
    schema.RenewDelegationTokenRequest: tokens.on_token_request,
    schema.UpdateFeaturesRequest: features.on_update_features,
}
EVENT_HANDLERS: Final[dict[type[events.Event], Handler]] = {
    events.AutoPreferredReplicaLeaderElection: elections.on_auto_preferred_election,
    events.BrokerChange: broker_changes.on_broker_change,
    events.BrokerModifications: broker_changes.on_broker_modifications,
    events.ConfigChange: topic_changes.on_config_change,
    events.ExpireTokens: tokens.on_expire_tokens,
    events.IsrChangeNotification: isr.on_isr_change_notification,
    events.LeaderAndIsrResponseReceived: log_dirs.on_leader_and_isr_response,
    events.LogDirEventNotification: log_dirs.on_log_dir_event_notification,
    events.PartitionModifications: topic_changes.on_partition_modifications,
    events.PartitionModificationsStep: topic_changes.on_partition_modifications_step,
    events.ReassignmentStep: reassignment.on_reassignment_step,
    events.StopReplicaResponseReceived: deletion.on_stop_replica_response,
    events.Tick: deletion.expire,
    events.TopicChange: topic_changes.on_topic_change,
    events.TopicDeletion: deletion.on_topic_deletion,
    events.TopicDeletionStep: deletion_steps.on_topic_deletion_step,
    events.TopicUncleanLeaderElectionEnable: topic_changes.on_topic_unclean_enable,
    events.ZkPartitionReassignment: reassignment.on_zk_partition_reassignment,
    events.ZkReplicaLeaderElection: elections.on_zk_replica_leader_election,
}


# The end of a failover, in this order (initializePartitionReassignments, tryTopicDeletion, onReplicaElection).
RESUMED: Final[tuple[Callable[[ControllerContext], Steps[None]], ...]] = (
    reassignment.resume,
    deletion.resume,
    elections.resume,
)
HOOKS: Final = ControllerHooks(
    brokers_started=(reassignment.resume_for_brokers, deletion.resume_for_brokers),
    deletion_offline=(deletion.fail_replicas,),
    topics_deleted=(reassignment.forget_topics,),
)
