"""Replaces all names, hosts, principals, ids and texts of a shape by pseudonyms, and keeps its sizes and structure.

A pseudonym is a keyed hash of the text, in hexadecimal digits. Equal texts have equal pseudonyms, as long as the text.
Nobody without the key can compute a pseudonym. Numbers, Kafka's own names and the words in Kafka's tables of settings
stay.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from kcore.constants import INTERNAL_TOPICS, METADATA_TOPIC, METADATA_VERSION
from kcore.metadata.acl_codes import RESOURCE_TYPES
from kcore.metadata.shape import LISTS, Document
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS
from kcore.metadata.table.directory_table import is_reserved_directory
from kcore.releases.known import RELEASES
from kcore.schema.configs import ConfigResourceType
from kcore.types import Uuid

KEY_BYTES: Final = 32
_LEAST: Final = 4  # No text of this length or more may be in the result.
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|")
_SECRET: Final = re.compile("password|passphrase|jaas|secret|key|certificate")
_TABLES: Final = [table for each in RELEASES.values() for table in (each.topic_configs, each.group_configs)]
_SETTINGS: Final = {name for each in RELEASES.values() for name in each.setting_names}.union(*_TABLES)
_VALUES: Final = {
    *("true", "false", *SECURITY_PROTOCOLS),
    *(value for table in _TABLES for each in table.values() for value in each.among),
}
_FEATURES: Final = {METADATA_VERSION, *(name for each in RELEASES.values() for name in each.features)}
_TOPICS: Final = {*INTERNAL_TOPICS, METADATA_TOPIC, "__share_group_state", "__remote_log_metadata"}
_QUOTAS: Final = {
    *("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    "connection_creation_rate",
}
_ENTITIES: Final = {"user", "client-id", "ip"}
_OWN: Final = {"", "*", "kafka-cluster", "<default>"} | _TOPICS
_USER: Final = next(code for code, name in RESOURCE_TYPES.items() if name == "USER")


def anonymized(document: Document, key: bytes, *, keep_broker_ids: bool = False) -> Document:
    """The document with pseudonyms; brokers are numbered from 1 in the order of their ids, or keep their ids."""
    return _Anonymizer(document, key, keep_broker_ids).document()


def _names(document: Document) -> Iterator[str]:
    """Every text of the document that must not be in the result."""
    for broker in document["brokers"]:
        yield broker.get("rack") or ""
        yield from (each[name] for each in broker.get("endPoints", ()) for name in ("name", "host"))
        yield from (each["name"] for each in broker.get("features", ()))
    yield from (topic["name"] for topic in document["topics"])
    for config in document["configs"]:
        yield from (config["resourceName"], config["name"])
        if not _is_public_value(config):
            yield config["value"] or ""
    for quota in document["quotas"]:
        yield from (each["entityName"] or "" for each in quota["entity"])
    for acl in document["acls"]:
        yield from (acl["resourceName"], acl["principal"].partition(":")[2], acl["host"])
    yield from (each["name"] for each in document["scram"])
    yield from (each["name"] for each in document["features"])


class _Anonymizer:
    """Makes the pseudonyms of one document, each text's pseudonym once."""

    def __init__(self, document: Document, key: bytes, keep_broker_ids: bool) -> None:
        self._given, self._key = document, key
        texts = {each for each in _names(document) if not _is_public(each)}
        self._texts = {each for each in texts if len(each) >= _LEAST}
        self._lengths = sorted({len(each) for each in self._texts})
        self._hexadecimal = {each for each in self._texts if re.fullmatch("[0-9a-f.]+", each)}
        ids = sorted(broker["brokerId"] for broker in document["brokers"])
        self._brokers = {each: each if keep_broker_ids else at for at, each in enumerate(ids, start=1)}
        self._broker_names = {str(each): str(to) for each, to in self._brokers.items()}
        self._pseudonyms: dict[str, str] = {}
        self._used: set[str] = set()
        for each in sorted(texts):  # In this order, so that the pseudonyms of short texts do not depend on places.
            self._make(each)

    def document(self) -> Document:
        """The whole document."""
        given = self._given
        return {
            **{name: given[name] for name in ("format", "version")},
            "directories": [self._uuid(each) for each in given["directories"]],
            "brokers": [self._broker(each) for each in given["brokers"]],
            "topics": [self._topic(each) for each in given["topics"]],
            "features": [
                self._with(each, name=_kept_or(each["name"], _FEATURES, self._pseudonym)) for each in given["features"]
            ],
            "configs": [self._config(each) for each in given["configs"]],
            "quotas": [self._quota(each) for each in given["quotas"]],
            "acls": [self._acl(each) for each in given["acls"]],
            "scram": [self._with(each, name=self._pseudonym(each["name"])) for each in given["scram"]],
        }

    @staticmethod
    def _with(given: Mapping[str, Any], **changed: Any) -> Document:
        return {**given, **changed}

    def _broker(self, broker: Document) -> Document:
        found = self._with(broker, brokerId=self._brokers[broker["brokerId"]])
        if "endPoints" not in broker:
            return found
        rack = broker.get("rack")
        found["rack"] = None if rack is None else self._pseudonym(rack)
        found["incarnationId"] = self._uuid(broker["incarnationId"])
        for name in ("logDirs", "cordonedLogDirs"):
            if broker.get(name):
                found[name] = [self._uuid(each) for each in broker[name]]
        found["endPoints"] = [
            self._with(
                each,
                name=_kept_or(each["name"], SECURITY_PROTOCOLS, self._pseudonym),
                host=self._pseudonym(each["host"]),
            )
            for each in broker["endPoints"]
        ]
        found["features"] = [
            self._with(each, name=_kept_or(each["name"], _FEATURES, self._pseudonym)) for each in broker["features"]
        ]
        return found

    def _topic(self, topic: Document) -> Document:
        found = self._with(topic, name=self._pseudonym(topic["name"]))
        if "topicId" in topic:
            found["topicId"] = self._uuid(topic["topicId"])
        found["partitions"] = [self._partition(each) for each in topic["partitions"]]
        return found

    def _partition(self, partition: Document) -> Document:
        found = dict(partition)
        for name in ("replicas", *LISTS):
            if name in partition:
                found[name] = [self._brokers[each] for each in partition[name]]
        if partition.get("leader", -1) >= 0:
            found["leader"] = self._brokers[partition["leader"]]
        return found

    def _config(self, config: Document) -> Document:
        name, resource, value = config["name"], config["resourceName"], config["value"]
        is_broker = config["resourceType"] in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
        return self._with(
            config,
            resourceName=self._broker_names.get(resource) or self._pseudonym(resource)
            if is_broker
            else self._pseudonym(resource),
            name=_kept_or(name, _SETTINGS, self._pseudonym),
            value=value if value is None or _is_public_value(config) else self._pseudonym(value),
        )

    def _quota(self, quota: Document) -> Document:
        entity = [
            self._with(
                each,
                entityType=_kept_or(each["entityType"], _ENTITIES, self._pseudonym),
                entityName=None if each["entityName"] is None else self._pseudonym(each["entityName"]),
            )
            for each in quota["entity"]
        ]
        return self._with(quota, entity=entity, key=_kept_or(quota["key"], _QUOTAS, self._pseudonym))

    def _acl(self, acl: Document) -> Document:
        is_user = acl["resourceType"] == _USER
        resource = self._principal(acl["resourceName"]) if is_user else self._pseudonym(acl["resourceName"])
        return self._with(
            acl,
            id=self._uuid(acl["id"]),
            resourceName=resource,
            principal=self._principal(acl["principal"]),
            host=self._pseudonym(acl["host"]),
        )

    def _principal(self, principal: str) -> str:
        kind, colon, name = principal.partition(":")
        return f"{kind}:{self._pseudonym(name)}" if colon and kind == "User" else self._pseudonym(principal)

    def _pseudonym(self, text: str) -> str:
        """The pseudonym of a text; names that Kafka gives are kept."""
        if _is_public(text):
            return text
        return self._pseudonyms.get(text) or self._make(text)

    def _make(self, text: str) -> str:
        size, tries = len(text.encode()), 0
        while True:
            pseudonym = self._digits(text, size, tries)
            is_name = pseudonym == text or any(each in pseudonym for each in self._hexadecimal)
            if pseudonym not in self._used and not is_name:
                break
            tries += 1
            size += tries % 64 == 0  # All pseudonyms of this length may be in use.
        self._used.add(pseudonym)
        self._pseudonyms[text] = pseudonym
        return pseudonym

    def _digits(self, text: str, size: int, tries: int) -> str:
        seed = hashlib.blake2b(f"{tries} {text}".encode(), key=self._key, digest_size=32).digest()
        return hashlib.shake_256(seed).hexdigest((size + 1) // 2)[:size]

    def _uuid(self, text: str) -> str:
        uuid = Uuid(text)
        if is_reserved_directory(uuid):
            return text
        for tries in range(1 << 20):
            digest = hashlib.blake2b(b"%d" % tries + uuid, key=self._key, digest_size=16).digest()
            found = str(Uuid(UUID(bytes=digest, version=4)))
            if not self._names_in(found):
                return found
        raise AssertionError("every id has a name of the cluster in its text")

    def _names_in(self, text: str) -> bool:
        sizes = (size for size in self._lengths if size <= len(text))
        return any(text[at : at + size] in self._texts for size in sizes for at in range(len(text) - size + 1))


def _kept_or(name: str, known: Iterable[str], pseudonym: Any) -> str:
    return name if name in known else pseudonym(name)


def _is_public(text: str) -> bool:
    return text in _OWN or text in _SETTINGS or text in _FEATURES or text in SECURITY_PROTOCOLS


def _is_public_value(config: Mapping[str, Any]) -> bool:
    """True for a number, and for values in Kafka's tables; a secret is neither."""
    value = config["value"] or ""
    if _SECRET.search(config["name"]):
        return not value
    return _NUMBER.fullmatch(value) is not None or all(each.strip() in _VALUES for each in value.split(","))


def summary(before: Document, after: Document) -> dict[str, str]:
    """Says in words which values `anonymized` kept, replaced and left out."""
    partitions = sum(len(topic["partitions"]) for topic in before["topics"])
    names = {
        name: [[each["name"] for each in found[name]] for found in (before, after)] for name in ("topics", "scram")
    }
    own = [name for name, pseudonym in zip(*names["topics"], strict=True) if name == pseudonym]
    pairs = list(zip(before["configs"], after["configs"], strict=True))
    values = sum(one["value"] == other["value"] for one, other in pairs)
    replaced = {
        "topic names": len(names["topics"][0]) - len(own),
        "racks": len({broker.get("rack") for broker in before["brokers"]} - {None}),
        "hosts": len({each["host"] for broker in before["brokers"] for each in broker.get("endPoints", ())}),
        "principals": len({acl["principal"] for acl in before["acls"]}),
        "SCRAM users": len({*names["scram"][0]}),
        "values of settings": len(pairs) - values,
    }
    kept = [
        f"{len(before['brokers']):,} brokers in {replaced['racks']:,} racks, with their states, epochs and ports",
        f"{len(before['topics']):,} topics with {partitions:,} partitions: replicas, ISRs, leaders, epochs",
        "the length of every name",
        f"{values:,} values of settings: numbers, and words in Kafka's tables",
        f"Kafka's own topics {', '.join(own)}" if own else "no topic name",
    ]
    return {
        "kept": "; ".join(kept),
        "replaced": ", ".join(f"{count:,} {what}" for what, count in replaced.items() if count) + ", all ids",
        "left out": "keys of SCRAM users, delegation tokens, controllers",
    }
