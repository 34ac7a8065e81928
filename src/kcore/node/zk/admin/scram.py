"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554): credentials are in `/config/users`.

A client sends the salted password, never the password; the znode has the two keys derived from the salted password.

Source: ZkAdminManager, ScramFormatter, ScramCredentialUtils and Sanitizer of 3.9.1.
"""

import base64
from collections import Counter
from collections.abc import Iterator
from typing import Final

from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_names import desanitized, is_znode_name, sanitized
from kcore.metadata.zookeeper.znode_operations import Create, Node, Operation, OperationResult, SetData
from kcore.node.zk.admin.configs import CHANGE_PATH
from kcore.node.zk.znode_steps import ZnodeSteps, read_children, read_nodes, write_nodes
from kcore.protocol_errors import Errors
from kcore.schema.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from kcore.scram import MECHANISMS, credential_flaw, keys_of, user_flaw

USERS: Final = f"{znodes.CONFIG}/users"
EMPTY_NAME: Final = (Errors.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
Refusal = tuple[Errors, str]
Configs = dict[str, str]


def alter(request: AlterUserScramCredentialsRequest) -> ZnodeSteps[AlterUserScramCredentialsResponse]:
    """Makes all alterations of a user, or none on an error; the response has a result for each user."""
    users = _users_of(request)
    results: dict[str, Refusal] = _illegal(request)
    pairs = Counter((each.name, each.mechanism) for each in request.upsertions)
    pairs.update((each.name, each.mechanism) for each in request.deletions)
    twice = {name for (name, _), times in pairs.items() if times > 1}
    for user in twice - results.keys():
        results[user] = Errors.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    left = [user for user in users if user not in results]
    nodes = dict(zip(left, (yield from _read(left)), strict=True))
    configs = {user: _configs_of(user, node) for user, node in nodes.items()}
    for each in request.deletions:
        if each.name in configs and MECHANISMS[each.mechanism].name not in configs[each.name]:
            results[each.name] = Errors.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    for user in results:
        configs.pop(user, None)
    for deletion in request.deletions:
        if deletion.name in configs:
            del configs[deletion.name][MECHANISMS[deletion.mechanism].name]
    for upsertion in request.upsertions:
        if upsertion.name in configs:
            configs[upsertion.name][MECHANISMS[upsertion.mechanism].name] = credential_of(upsertion)
    results |= yield from _write(configs, nodes)
    return AlterUserScramCredentialsResponse(results=[_result(user, results.get(user)) for user in users])


def _users_of(request: AlterUserScramCredentialsRequest) -> list[str]:
    """The users in the order of the request, each once."""
    names = [*(each.name for each in request.upsertions), *(each.name for each in request.deletions)]
    return [*dict.fromkeys(names)]


def _result(user: str, refusal: Refusal | None) -> AlterUserScramCredentialsResult:
    error, message = refusal or (Errors.NONE, None)
    return AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message)


def _illegal(request: AlterUserScramCredentialsRequest) -> dict[str, Refusal]:
    """By user: the error of an alteration with an invalid name, mechanism, salt, password or iterations."""
    refused = {each.name: why for each in request.deletions if (why := _refusal(each.name, each.mechanism))}
    for each in request.upsertions:
        why = _refusal(each.name, each.mechanism)
        why = why or credential_flaw(each.salt, each.salted_password, each.iterations)
        if why is not None:
            refused[each.name] = why
    return refused


def _refusal(user: str, mechanism: int) -> Refusal | None:
    if user and not is_znode_name(sanitized(user)):
        return Errors.UNACCEPTABLE_CREDENTIAL, f"No znode can be named {user!r}"
    return user_flaw(user, mechanism)


def credential_of(upsertion: ScramCredentialUpsertion) -> str:
    """The text of a credential in the user's settings (ScramCredentialUtils.credentialToString)."""
    stored_key, server_key = keys_of(MECHANISMS[upsertion.mechanism].name, upsertion.salted_password)
    named = {"salt": upsertion.salt, "stored_key": stored_key, "server_key": server_key}
    encoded = [f"{name}={base64.b64encode(value).decode()}" for name, value in named.items()]
    return ",".join([*encoded, f"iterations={upsertion.iterations}"])


def _read(users: list[str]) -> ZnodeSteps[list[Node | None]]:
    return (yield from read_nodes([f"{USERS}/{sanitized(user)}" for user in users])) if users else []


def _configs_of(user: str, node: Node | None) -> Configs:
    """All settings of a user: quotas and credentials are in the same znode."""
    try:
        return {} if node is None else znodes.decode_config(f"{USERS}/{sanitized(user)}", node.data)
    except TableError:
        return {}  # Kafka treats an unreadable znode as empty.


def _write(configs: dict[str, Configs], nodes: dict[str, Node | None]) -> ZnodeSteps[dict[str, Refusal]]:
    """Writes each user's settings and a change notification; returns the errors of failed writes."""
    operations: list[Operation] = []
    for user, config in configs.items():
        path, data, node = f"{USERS}/{sanitized(user)}", znodes.encode_config(config), nodes[user]
        operations.append(Create(path, data) if node is None else SetData(path, data, node.version))
        note = znodes.encode_config_change(f"users/{sanitized(user)}")
        operations.append(Create(CHANGE_PATH, note, sequential=True))
    outcomes = (yield from write_nodes(operations)) if operations else []
    return {
        user: (Errors.UNKNOWN_SERVER_ERROR, f"Not written: {outcome.value}")
        for user, outcome in zip(configs, outcomes[::2], strict=True)
        if outcome is not OperationResult.DONE
    }


def describe(request: DescribeUserScramCredentialsRequest) -> ZnodeSteps[DescribeUserScramCredentialsResponse]:
    """The mechanisms and iterations of the requested users, or of all users with credentials; never a key."""
    if not request.users:
        children = yield from read_children(USERS)
        nodes = (yield from read_nodes([f"{USERS}/{each}" for each in children])) if children else []
        found = [_described(desanitized(each), node) for each, node in zip(children, nodes, strict=True)]
        known_users = sorted((each for each in found if each.error_code == Errors.NONE), key=lambda each: each.user)
        return DescribeUserScramCredentialsResponse(results=known_users)
    times = Counter(each.name for each in request.users)
    wanted = [name for name in times if is_znode_name(sanitized(name)) and times[name] == 1]
    known = dict(zip(wanted, (yield from _read(wanted)), strict=True))
    return DescribeUserScramCredentialsResponse(
        results=[_described(name, known[name]) if name in known else _not_described(name) for name in times]
    )


def _not_described(name: str) -> DescribeUserScramCredentialsResult:
    if not is_znode_name(sanitized(name)):
        failure = Errors.RESOURCE_NOT_FOUND, EMPTY_NAME[1] if not name else f"No user can be named {name!r}"
    else:
        why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        failure = Errors.DUPLICATE_RESOURCE, why
    return DescribeUserScramCredentialsResult(user=name, error_code=failure[0], error_message=failure[1])


def _described(name: str, node: Node | None) -> DescribeUserScramCredentialsResult:
    infos = [*_infos(_configs_of(name, node))]
    if infos:
        return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)
    why = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(user=name, error_code=Errors.RESOURCE_NOT_FOUND, error_message=why)


def _infos(configs: Configs) -> Iterator[CredentialInfo]:
    """The mechanism and iterations of each readable credential."""
    for number, mechanism in MECHANISMS.items():
        parts = dict(each.partition("=")[::2] for each in configs.get(mechanism.name, "").split(","))
        iterations = parts.get("iterations", "")
        if iterations.isascii() and iterations.isdecimal() and len(iterations) < 10:
            yield CredentialInfo(mechanism=number, iterations=int(iterations))
