"""The table of requests and their handlers."""

from typing import Final

from kcore import schema
from kcore.controller.kraft.admin import acls, configs, features, quotas, scram, tokens
from kcore.controller.kraft.admin.cluster import on_describe_cluster
from kcore.controller.kraft.brokers import heartbeat, nodes, registration
from kcore.controller.kraft.kraft_context import Handler
from kcore.controller.kraft.leaders import directories, isrs, leader_elections, reassignments
from kcore.controller.kraft.topics import creation, deletion, growth
from kcore.schema import acls as acl_schema
from kcore.schema import broker_lifecycle as lifecycle
from kcore.schema import configs as config_schema
from kcore.schema import delegation_tokens as token_schema
from kcore.schema import partitions, topics
from kcore.schema.structure import Message

HANDLERS: Final[dict[type[Message], Handler]] = {
    lifecycle.BrokerRegistrationRequest: registration.on_broker_registration,
    lifecycle.BrokerHeartbeatRequest: heartbeat.on_broker_heartbeat,
    lifecycle.UnregisterBrokerRequest: nodes.on_unregister_broker,
    lifecycle.ControllerRegistrationRequest: nodes.on_controller_registration,
    lifecycle.UnregisterControllerRequest: nodes.on_unregister_controller,
    schema.AllocateProducerIdsRequest: nodes.on_allocate_producer_ids,
    config_schema.AlterConfigsRequest: configs.on_alter_configs,
    config_schema.IncrementalAlterConfigsRequest: configs.on_incremental_alter_configs,
    config_schema.DescribeConfigsRequest: configs.on_describe_configs,
    topics.CreateTopicsRequest: creation.on_create_topics,
    partitions.CreatePartitionsRequest: growth.on_create_partitions,
    topics.DeleteTopicsRequest: deletion.on_delete_topics,
    schema.AlterPartitionRequest: isrs.on_alter_partition,
    partitions.ElectLeadersRequest: leader_elections.on_elect_leaders,
    partitions.AlterPartitionReassignmentsRequest: reassignments.on_alter_partition_reassignments,
    partitions.ListPartitionReassignmentsRequest: reassignments.on_list_partition_reassignments,
    schema.AssignReplicasToDirsRequest: directories.on_assign_replicas_to_dirs,
    schema.AlterClientQuotasRequest: quotas.on_alter_client_quotas,
    schema.AlterUserScramCredentialsRequest: scram.on_alter_user_scram_credentials,
    schema.DescribeUserScramCredentialsRequest: scram.on_describe_user_scram_credentials,
    acl_schema.CreateAclsRequest: acls.on_create_acls,
    acl_schema.DeleteAclsRequest: acls.on_delete_acls,
    acl_schema.DescribeAclsRequest: acls.on_describe_acls,
    token_schema.CreateDelegationTokenRequest: tokens.on_create_delegation_token,
    token_schema.RenewDelegationTokenRequest: tokens.on_renew_delegation_token,
    token_schema.ExpireDelegationTokenRequest: tokens.on_expire_delegation_token,
    token_schema.DescribeDelegationTokenRequest: tokens.on_describe_delegation_token,
    schema.UpdateFeaturesRequest: features.on_update_features,
    schema.DescribeClusterRequest: on_describe_cluster,
}

# A standby answers these requests too, from its committed state. The active controller reads its latest state and sends
# the answer when this state is committed. Kafka's controller answers from its committed state (lastStableOffset).
READS: Final = (
    *(schema.DescribeClusterRequest, config_schema.DescribeConfigsRequest, acl_schema.DescribeAclsRequest),
    *(partitions.ListPartitionReassignmentsRequest, schema.DescribeUserScramCredentialsRequest),
)
