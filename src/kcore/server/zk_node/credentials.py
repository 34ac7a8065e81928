"""Keeps SCRAM credentials and delegation tokens equal to ZooKeeper, for clients that authenticate with SCRAM.

A user's credentials are settings of the user. Log lines about unreadable credentials do not contain them. Source:
UserConfigHandler, ScramCredentialUtils, DelegationTokenManagerZk of 3.9.1.
"""

import binascii
import logging
import re
from base64 import b64decode
from typing import Final

from kcore.errors import TableError
from kcore.metadata.zookeeper import znode_tokens, znodes
from kcore.metadata.zookeeper.znode_names import DEFAULT, desanitized, is_znode_name
from kcore.net.security.sasl_mechanisms import Token
from kcore.node.tokens import secret_of
from kcore.node.zk.admin.scram import USERS
from kcore.scram import MECHANISMS, ScramCredential, is_stored_credential
from kcore.server.zk_node.notification_watcher import Notification, changed_entities, read_configs
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
_PARTS: Final = ("salt", "stored_key", "server_key", "iterations")
_NAMES: Final = tuple(mechanism.name for mechanism in MECHANISMS.values())
Users = dict[tuple[str, str], ScramCredential]  # By mechanism and name.


class ZkCredentials:
    """Follows the credentials in ZooKeeper; implements `Credentials` of `sasl_mechanisms.py`."""

    subject = "users and tokens"

    def __init__(self, zookeeper: ZookeeperClient, secret_key: str | None) -> None:
        """`secret_key`: delegation.token.secret.key; None: tokens are disabled."""
        self._zookeeper = zookeeper
        self._key = None if secret_key is None else secret_key.encode()
        self._users: Users = {}
        self._tokens: dict[str, Token] = {}
        of_tokens = () if self._key is None else znode_tokens.PERSISTENT_PATHS
        self.made_paths = znodes.CONFIG_CHANGES, USERS, *of_tokens
        self.parents = znodes.CONFIG_CHANGES, *([] if self._key is None else [znode_tokens.CHANGES])

    def scram(self, mechanism: str, username: str) -> ScramCredential | None:
        """The user's credential for a mechanism; None if there is none."""
        return self._users.get((mechanism, username))

    def secret(self) -> bytes | None:
        """A secret that all nodes share, derived from `delegation.token.secret.key`; None without the setting."""
        return None if self._key is None else secret_of(self._key, "unknown users")

    def token(self, token_id: str) -> Token | None:
        """The token with this id; None if there is none."""
        return self._tokens.get(token_id)

    async def read_all(self) -> None:
        [users] = await self._zookeeper.read_children([USERS])
        tokens: list[str] | None = None
        if self._key is not None:
            [tokens] = await self._zookeeper.read_children([znode_tokens.TOKENS])
        await self._read_users(users or [])
        await self._read_tokens(tokens or [])
        names = {desanitized(each) for each in users or ()}
        self._users = {key: value for key, value in self._users.items() if key[1] in names}
        self._tokens = {key: value for key, value in self._tokens.items() if key in (tokens or ())}

    async def read_changed(self, notifications: list[Notification]) -> None:
        of_tokens = [each for each in notifications if each.parent == znode_tokens.CHANGES]
        tokens = dict.fromkeys(each.data.decode(errors="replace") for each in of_tokens)
        others = [each for each in notifications if each.parent != znode_tokens.CHANGES]
        parts = [each.partition("/") for each in changed_entities(others)]
        # users/NAME/clients/NAME has only quotas, and is not a valid znode name.
        await self._read_users([name for kind, _, name in parts if kind == "users" and is_znode_name(name)])
        await self._read_tokens([each for each in tokens if is_znode_name(each)])

    async def _read_users(self, names: list[str]) -> None:
        """Reads the credentials of users; `names`: the names of their znodes."""
        names = [each for each in names if each != DEFAULT]
        paths = [f"{USERS}/{each}" for each in names]
        found = await read_configs(self._zookeeper, paths, "the user cannot authenticate")
        for name, known in zip(names, found, strict=True):
            user, configs = desanitized(name), known or {}
            for mechanism in _NAMES:
                self._users.pop((mechanism, user), None)
                if mechanism in configs:
                    credential = credential_in(configs[mechanism], mechanism)
                    if credential is None:
                        logger.warning("%s/%s: the %s credential is invalid; set it again", USERS, name, mechanism)
                    else:
                        self._users[mechanism, user] = credential

    async def _read_tokens(self, token_ids: list[str]) -> None:
        if self._key is None:
            return
        paths = [znode_tokens.token_path(each) for each in token_ids]
        for token_id, path, node in zip(token_ids, paths, await self._zookeeper.read_nodes(paths), strict=True):
            self._tokens.pop(token_id, None)
            if node is None:
                continue
            try:
                token = znode_tokens.decode_token(path, node.data)
            except TableError as error:
                logger.warning("%s; until the znode is repaired, no client can authenticate with the token", error)
                continue
            self._tokens[token_id] = Token(token.owner, token.expiry_timestamp, secret_of(self._key, token_id))


def credential_in(text: str, mechanism: str) -> ScramCredential | None:
    """The credential in a user's setting (ScramCredentialUtils.credentialFromString); None if it is unusable."""
    parts = dict(each.partition("=")[::2] for each in text.split(","))
    if parts.keys() != {*_PARTS} or not re.fullmatch(r"\d{1,9}", parts["iterations"], re.ASCII):
        return None
    try:
        salt, stored_key, server_key = (b64decode(parts[each], validate=True) for each in _PARTS[:-1])
    except (binascii.Error, ValueError):
        return None
    iterations = int(parts["iterations"])
    if not is_stored_credential(mechanism, stored_key, server_key, iterations):
        return None
    return ScramCredential(salt, stored_key, server_key, iterations)
