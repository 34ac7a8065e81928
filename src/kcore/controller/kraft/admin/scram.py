"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554, KIP-900).

A client sends a salted password; the controller stores the two keys derived from it. The controller never logs or sends
keys and salts. Source: ScramControlManager, ScramImage, ScramFormatter.
"""

from collections import Counter
from typing import Final

from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, Versioned, pause_if_many
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.java_hash import hash_map_ordering
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

USERS_AT_ONCE: Final = 250  # Users of one part of a decision: a user takes up to 15 us.
_COUNTED_AT_ONCE: Final = 10 * AT_ONCE  # Users of one part that only counts their names.
TWICE: Final = Flaw(Errors.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
TOO_OLD: Final = Flaw(Errors.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")


def on_alter_user_scram_credentials(
    context: ControllerContext, request: AlterUserScramCredentialsRequest, info: RequestInfo
) -> Steps:
    """Make at most one change per user; a refused change does not stop the others. Needs ALTER of the cluster."""
    if not context.is_authorized(info, ALTER):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, ALTER)))
    if request.deletions or request.upsertions:
        context.call_controller()
    changes = _Changes(context)
    for place, deletion in enumerate(request.deletions, 1):
        if place % USERS_AT_ONCE == 0:
            yield
        changes.delete(deletion)
    for place, upsertion in enumerate(request.upsertions, 1):
        if place % USERS_AT_ONCE == 0:
            yield
        changes.upsert(upsertion)
    return (yield from changes.decision())


class _Changes:
    """The changes of one request, by user."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._deletions: dict[str, ScramCredentialDeletion] = {}
        self._upsertions: dict[str, ScramCredentialUpsertion] = {}
        self._refusals: dict[str, Flaw] = {}

    def delete(self, deletion: ScramCredentialDeletion) -> None:
        """Add a deletion. The caller adds all deletions before the first upsertion."""
        name = deletion.name
        if name in self._refusals:
            return
        if self._deletions.pop(name, None) is not None:
            self._refusals[name] = TWICE
        elif (found := _deletion_refusal(self._context, deletion)) is not None:
            self._refusals[name] = found
        else:
            self._deletions[name] = deletion

    def upsert(self, upsertion: ScramCredentialUpsertion) -> None:
        """Add an upsertion."""
        name = upsertion.name
        if name in self._refusals:
            return
        if (self._deletions.pop(name, None), self._upsertions.pop(name, None)) != (None, None):
            self._refusals[name] = TWICE
        elif (found := _upsertion_refusal(self._context, upsertion)) is not None:
            self._refusals[name] = found
        else:
            self._upsertions[name] = upsertion

    def decision(self) -> Steps:
        """The records of the changes, and the result of each user."""
        gone = yield from hash_map_ordering(self._deletions)
        made = yield from hash_map_ordering(self._upsertions)
        failed = yield from hash_map_ordering(self._refusals)
        records, results = list[Versioned](), list[AlterUserScramCredentialsResult]()
        for place, name in enumerate((*gone, *made, *failed), 1):
            if place % USERS_AT_ONCE == 0:
                yield
            results.append(_result(name, self._refusals.get(name)))
            if name in self._deletions:
                records.append(_removal(self._deletions[name]))
            elif name in self._upsertions:
                records.append(_credential(self._upsertions[name]))
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
) -> Steps:
    """Mechanisms and iterations of the named users, or of all users with credentials; never a key.

    Needs DESCRIBE of the cluster. Source: ScramImage.describe.
    """
    if not context.is_authorized(info, DESCRIBE):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, DESCRIBE)))
    users = request.users or ()
    times: Counter[str] = Counter()
    for begin in range(0, len(users), _COUNTED_AT_ONCE):
        if begin:
            yield
        times.update(each.name for each in users[begin : begin + _COUNTED_AT_ONCE])
    times = times or Counter(dict.fromkeys((key[1] for key in context.image.scram), 1))
    yield from pause_if_many(len(times))
    results = []
    for place, name in enumerate((yield from hash_map_ordering(times)), 1):
        if place % USERS_AT_ONCE == 0:
            yield
        results.append(_described(context.image, name, is_twice=times[name] > 1))
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
