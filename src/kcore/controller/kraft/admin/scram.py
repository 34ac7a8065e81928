"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554, KIP-900).

A client sends a salted password; the controller stores the two keys derived from it. The controller never logs or sends
keys and salts. Source: ScramControlManager, ScramImage, ScramFormatter.
"""

from collections import Counter
from typing import Final

from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.java_hash import hash_map_order
from kcore.metadata.acl_codes import ALTER, DESCRIBE
from kcore.metadata.image.image import ClusterImage
from kcore.node.authorization import refusal
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.schema.metadata_records_security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from kcore.schema.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kcore.scram import MECHANISMS, Flaw, credential_flaw, keys_of, user_flaw

TWICE: Final = Flaw(Errors.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
TOO_OLD: Final = Flaw(Errors.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")


def on_alter_user_scram_credentials(
    context: ControllerContext, request: AlterUserScramCredentialsRequest, info: RequestInfo
) -> Decision:
    """Make at most one change per user; a refused change does not stop the others. Needs ALTER of the cluster."""
    if not context.is_authorized(info, ALTER):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, ALTER)))
    if request.deletions or request.upsertions:
        context.call_controller()
    deletions: dict[str, ScramCredentialDeletion] = {}
    upsertions: dict[str, ScramCredentialUpsertion] = {}
    refusals: dict[str, Flaw] = {}
    for deletion in request.deletions:
        if deletion.name in refusals:
            continue
        if deletions.pop(deletion.name, None) is not None:
            refusals[deletion.name] = TWICE
        elif (found := _deletion_refusal(context, deletion)) is not None:
            refusals[deletion.name] = found
        else:
            deletions[deletion.name] = deletion
    for upsertion in request.upsertions:
        if upsertion.name in refusals:
            continue
        taken = deletions.pop(upsertion.name, None), upsertions.pop(upsertion.name, None)
        if taken != (None, None):
            refusals[upsertion.name] = TWICE
        elif (found := _upsertion_refusal(context, upsertion)) is not None:
            refusals[upsertion.name] = found
        else:
            upsertions[upsertion.name] = upsertion
    gone, made, failed = hash_map_order(deletions), hash_map_order(upsertions), hash_map_order(refusals)
    records = [_removal(deletions[name]) for name in gone] + [_credential(upsertions[name]) for name in made]
    results = [_result(name) for name in (*gone, *made)] + [_result(name, refusals[name]) for name in failed]
    return Decision(AlterUserScramCredentialsResponse(results=results), records)


def _result(user: str, refusal: Flaw | None = None) -> AlterUserScramCredentialsResult:
    error, message = refusal or (Errors.NONE, None)
    return AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message)


def _deletion_refusal(context: ControllerContext, deletion: ScramCredentialDeletion) -> Flaw | None:
    found = _user_refusal(context, deletion.name, deletion.mechanism)
    if found is None and (deletion.mechanism, deletion.name) not in context.image.scram:
        return Flaw(Errors.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return found


def _upsertion_refusal(context: ControllerContext, upsertion: ScramCredentialUpsertion) -> Flaw | None:
    found = _user_refusal(context, upsertion.name, upsertion.mechanism)
    return found or credential_flaw(upsertion.salt, upsertion.salted_password, upsertion.iterations)


def _user_refusal(context: ControllerContext, name: str, mechanism: int) -> Flaw | None:
    return user_flaw(name, mechanism) if context.version.scram_supported else TOO_OLD


def _removal(deletion: ScramCredentialDeletion) -> Versioned:
    return Versioned(RemoveUserScramCredentialRecord(name=deletion.name, mechanism=deletion.mechanism))


def _credential(upsertion: ScramCredentialUpsertion) -> Versioned:
    """The record of an upserted credential."""
    stored_key, server_key = keys_of(MECHANISMS[upsertion.mechanism].name, upsertion.salted_password)
    record = UserScramCredentialRecord(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=upsertion.salt,
        stored_key=stored_key,
        server_key=server_key,
        iterations=upsertion.iterations,
    )
    return Versioned(record)


def on_describe_user_scram_credentials(
    context: ControllerContext, request: DescribeUserScramCredentialsRequest, info: RequestInfo
) -> Decision:
    """Mechanisms and iterations of the named users, or of all users with credentials; never a key.

    Needs DESCRIBE of the cluster. Source: ScramImage.describe.
    """
    if not context.is_authorized(info, DESCRIBE):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, DESCRIBE)))
    times = Counter(each.name for each in request.users or ()) or dict.fromkeys(
        (key[1] for key in context.image.scram), 1
    )
    results = [_described(context.image, name, is_twice=times[name] > 1) for name in hash_map_order(times)]
    return Decision(DescribeUserScramCredentialsResponse(error_message=None, results=results))


def _described(image: ClusterImage, name: str, *, is_twice: bool) -> DescribeUserScramCredentialsResult:
    infos = [
        CredentialInfo(mechanism=mechanism, iterations=image.scram[mechanism, name].iterations)
        for mechanism in MECHANISMS
        if (mechanism, name) in image.scram
    ]
    error, message = Errors.NONE, None
    if is_twice:
        error = Errors.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif not infos:
        error = Errors.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(
        user=name, error_code=error, error_message=message, credential_infos=[] if error else infos
    )
