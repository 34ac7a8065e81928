"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554): credentials are in `/config/users`.

A client sends the salted password, never the password; the znode has the two keys derived from the salted password.

Source: ZkAdminManager, ScramFormatter, ScramCredentialUtils and Sanitizer of 3.9.1.
"""

import base64
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_names import desanitized, is_znode_name, sanitized
from kcore.metadata.zookeeper.znode_operations import Create, Node, Operation, OperationResult, SetData
from kcore.node.zk.admin.configs import CHANGE_PATH
from kcore.node.zk.znode_steps import (
    CHANGED_MEANWHILE,
    MOST_TRIES,
    Pause,
    ZnodeSteps,
    pause_after,
    read_children,
    read_nodes,
    write_nodes,
)
from kcore.protocol_errors import Errors
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
from kcore.scram import MECHANISMS, credential_flaw, keys_of, user_flaw

USERS: Final = f"{znodes.CONFIG}/users"
Refusal = tuple[Errors, str]
Configs = dict[str, str]
EMPTY_NAME: Final = (Errors.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
TWICE: Final[Refusal] = Errors.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
NAMED_AT_ONCE: Final = 1_000  # Users of one part that only sorts alterations by their names.
USERS_AT_ONCE: Final = 100  # Users of one part: a user takes up to 40 us.


class _Changes(NamedTuple):
    """The alterations of one user."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


def alter(request: AlterUserScramCredentialsRequest) -> ZnodeSteps[AlterUserScramCredentialsResponse]:
    """Makes all alterations of a user, or none on an error; the response has a result for each user."""
    users = yield from _users_of(request)
    refusals = yield from _illegal(request)
    changes: dict[str, _Changes] = {}
    for place, user in enumerate(users, 1):
        yield from pause_after(place, NAMED_AT_ONCE)
        if user not in refusals:
            changes[user] = _Changes([], [])
    for place, deletion in enumerate(request.deletions, 1):
        yield from pause_after(place, NAMED_AT_ONCE)
        if deletion.name in changes:
            changes[deletion.name].deletions.append(deletion)
    for place, upsertion in enumerate(request.upsertions, 1):
        yield from pause_after(place, NAMED_AT_ONCE)
        if upsertion.name in changes:
            changes[upsertion.name].upsertions.append(upsertion)
    legal = [*changes]
    for begin in range(0, len(legal), USERS_AT_ONCE):
        refusals |= yield from _alter({user: changes[user] for user in legal[begin : begin + USERS_AT_ONCE]})
    results = []
    for place, user in enumerate(users, 1):
        yield from pause_after(place, USERS_AT_ONCE)
        results.append(_result(user, refusals.get(user)))
    return AlterUserScramCredentialsResponse(results=results)


def _alter(changes: dict[str, _Changes]) -> ZnodeSteps[dict[str, Refusal]]:
    """Alters users without an illegal alteration, again if another node changes them meanwhile; returns the errors."""
    refusals: dict[str, Refusal] = {}
    outcomes: dict[str, OperationResult] = {}
    left = changes
    for _ in range(MOST_TRIES):
        refused, written = yield from _try(left)
        refusals |= refused
        outcomes |= written
        left = {user: changes[user] for user, outcome in written.items() if outcome in CHANGED_MEANWHILE}
        if not left:
            break
    failed = {user: outcome for user, outcome in outcomes.items() if outcome is not OperationResult.DONE}
    errors = {user: (Errors.UNKNOWN_SERVER_ERROR, f"Not written: {outcome.value}") for user, outcome in failed.items()}
    return errors | refusals


def _try(changes: dict[str, _Changes]) -> ZnodeSteps[tuple[dict[str, Refusal], dict[str, OperationResult]]]:
    """Reads and writes the users' settings; the errors of refused users, and the outcomes of all writes."""
    nodes = dict(zip(changes, (yield from _read([*changes])), strict=True))
    refusals: dict[str, Refusal] = {}
    written: dict[str, Configs] = {}
    for user, (deletions, upsertions) in changes.items():
        configs = _configs_of(user, nodes[user])
        if all(configs.pop(MECHANISMS[each.mechanism].name, None) is not None for each in deletions):
            for each in upsertions:
                configs[MECHANISMS[each.mechanism].name] = credential_of(each)
            written[user] = configs
        else:
            why = "Attempt to delete a user credential that does not exist"
            refusals[user] = Errors.RESOURCE_NOT_FOUND, why
    return refusals, (yield from _write(written, nodes))


def _users_of(request: AlterUserScramCredentialsRequest) -> ZnodeSteps[list[str]]:
    """The users in the order of the request, each once."""
    names: dict[str, None] = {}
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.upsertions, *request.deletions]
    for place, each in enumerate(changes, 1):
        yield from pause_after(place, NAMED_AT_ONCE)
        names[each.name] = None
    return [*names]


def _result(user: str, refusal: Refusal | None) -> AlterUserScramCredentialsResult:
    error, message = refusal or (Errors.NONE, None)
    return AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message)


def _illegal(request: AlterUserScramCredentialsRequest) -> ZnodeSteps[dict[str, Refusal]]:
    """By user: the error of an alteration that is invalid, or that the request repeats."""
    refused: dict[str, Refusal] = {}
    seen, twice = set[tuple[str, int]](), dict[str, Refusal]()
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    for place, each in enumerate(changes, 1):
        yield from pause_after(place, USERS_AT_ONCE)
        why = _refusal(each.name, each.mechanism)
        if why is None and isinstance(each, ScramCredentialUpsertion):
            why = credential_flaw(each.salt, each.salted_password, each.iterations)
        if why is not None:
            refused[each.name] = why
        if (each.name, each.mechanism) in seen:
            twice[each.name] = TWICE
        seen.add((each.name, each.mechanism))
    return twice | refused


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


def _write(configs: dict[str, Configs], nodes: dict[str, Node | None]) -> ZnodeSteps[dict[str, OperationResult]]:
    """Writes each user's settings and a change notification; returns the outcomes of the settings."""
    operations: list[Operation] = []
    for user, config in configs.items():
        path, data, node = f"{USERS}/{sanitized(user)}", znodes.encode_config(config), nodes[user]
        operations.append(Create(path, data) if node is None else SetData(path, data, node.version))
        note = znodes.encode_config_change(f"users/{sanitized(user)}")
        operations.append(Create(CHANGE_PATH, note, sequential=True))
    outcomes = (yield from write_nodes(operations)) if operations else []
    return dict(zip(configs, outcomes[::2], strict=True))


def describe(request: DescribeUserScramCredentialsRequest) -> ZnodeSteps[DescribeUserScramCredentialsResponse]:
    """The mechanisms and iterations of the requested users, or of all users with credentials; never a key."""
    results = []
    if not request.users:
        children = yield from read_children(USERS)
        nodes = (yield from read_nodes([f"{USERS}/{each}" for each in children])) if children else []
        for place, (child, node) in enumerate(zip(children, nodes, strict=True), 1):
            yield from pause_after(place, USERS_AT_ONCE)
            results.append(_described(desanitized(child), node))
        known_users = sorted((each for each in results if each.error_code == Errors.NONE), key=lambda each: each.user)
        return DescribeUserScramCredentialsResponse(results=known_users)
    times = Counter(each.name for each in request.users)
    names = [*times]
    for begin in range(0, len(names), USERS_AT_ONCE):
        if begin:
            yield Pause()
        some = names[begin : begin + USERS_AT_ONCE]
        wanted = [name for name in some if is_znode_name(sanitized(name)) and times[name] == 1]
        known = dict(zip(wanted, (yield from _read(wanted)), strict=True))
        results += [_described(name, known[name]) if name in known else _not_described(name) for name in some]
    return DescribeUserScramCredentialsResponse(results=results)


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
