"""Whether a principal may do what it asks for: StandardAuthorizer over the image's ACLs.

Numbers are Kafka's: AclOperation's and ResourceType's codes.
"""

from typing import Final

from kcore.controller.kraft.context import ControllerContext, RequestInfo

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS = range(3, 12)
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(2, 8)
CLUSTER_NAME: Final = "kafka-cluster"


def is_authorized(
    context: ControllerContext,
    info: RequestInfo,
    operation: int,
    resource_type: int = CLUSTER,
    name: str = CLUSTER_NAME,
) -> bool:
    """Whether who asks may do that to the resource. Without an authorizer everybody may do everything."""
    return not context.config.has_authorizer or f"{info.principal}" in context.config.super_users
