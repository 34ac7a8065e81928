"""The table of administrators' requests and their handlers."""

from typing import Final

from kcore.controller.kraft.admin.acls import on_create_acls, on_delete_acls, on_describe_acls
from kcore.controller.kraft.admin.cluster import on_describe_cluster
from kcore.controller.kraft.admin.features import on_update_features
from kcore.controller.kraft.admin.quotas import on_alter_client_quotas
from kcore.controller.kraft.admin.scram import on_alter_user_scram_credentials, on_describe_user_scram_credentials
from kcore.controller.kraft.admin.tokens import (
    on_create_delegation_token,
    on_describe_delegation_token,
    on_expire_delegation_token,
    on_renew_delegation_token,
)
from kcore.controller.kraft.kraft_context import Handler
from kcore.schema.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.quotas import AlterClientQuotasRequest
from kcore.schema.scram import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message
from kcore.schema.update_features import UpdateFeaturesRequest

HANDLERS: Final[dict[type[Message], Handler]] = {
    AlterClientQuotasRequest: on_alter_client_quotas,
    AlterUserScramCredentialsRequest: on_alter_user_scram_credentials,
    DescribeUserScramCredentialsRequest: on_describe_user_scram_credentials,
    CreateAclsRequest: on_create_acls,
    DeleteAclsRequest: on_delete_acls,
    DescribeAclsRequest: on_describe_acls,
    CreateDelegationTokenRequest: on_create_delegation_token,
    RenewDelegationTokenRequest: on_renew_delegation_token,
    ExpireDelegationTokenRequest: on_expire_delegation_token,
    DescribeDelegationTokenRequest: on_describe_delegation_token,
    UpdateFeaturesRequest: on_update_features,
    DescribeClusterRequest: on_describe_cluster,
}
