"""Kafka's message schemas as classes: facts without bytes, one file an API family."""

from kcore.schema.controlled_shutdown import ControlledShutdownRequest as ControlledShutdownRequest
from kcore.schema.controlled_shutdown import ControlledShutdownResponse as ControlledShutdownResponse
from kcore.schema.headers import RequestHeader as RequestHeader
from kcore.schema.headers import ResponseHeader as ResponseHeader
from kcore.schema.index import MESSAGES as MESSAGES
from kcore.schema.index import message_class as message_class
from kcore.schema.leader_and_isr import LeaderAndIsrRequest as LeaderAndIsrRequest
from kcore.schema.leader_and_isr import LeaderAndIsrResponse as LeaderAndIsrResponse
from kcore.schema.stop_replica import StopReplicaRequest as StopReplicaRequest
from kcore.schema.stop_replica import StopReplicaResponse as StopReplicaResponse
from kcore.schema.update_metadata import UpdateMetadataRequest as UpdateMetadataRequest
from kcore.schema.update_metadata import UpdateMetadataResponse as UpdateMetadataResponse
