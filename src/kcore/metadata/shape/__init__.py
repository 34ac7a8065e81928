"""The shape of a cluster as one JSON document: its brokers, topics, partitions and settings, without secrets.

`shape_of` makes the document of an image, and `image_of` the image of a document. Rows of brokers and topics keep their
order, so a decision on the new image is the decision on the old one. All but partitions are Kafka's records in Kafka's
JSON, and `image_of` applies them as records. docs/guides/your-cluster.md documents the format.

- `shape_writer`: an image as a document, and a document as text.
- `shape_reader`: a text as a document, and a document as an image; checks every value.
- `anonymous`: a document in which pseudonyms replace all names, hosts, principals and ids.
"""

from typing import Any, Final, TypeAlias

from kcore.schema import metadata_records_security as security
from kcore.schema import metadata_records_settings as settings
from kcore.schema.structure import MetadataRecord

Document: TypeAlias = dict[str, Any]

FORMAT: Final = "kcore cluster shape"
VERSION: Final = 1
SECTIONS: Final[dict[str, type[MetadataRecord]]] = {
    "features": settings.FeatureLevelRecord,
    "configs": settings.ConfigRecord,
    "quotas": settings.ClientQuotaRecord,
    "acls": security.AccessControlEntryRecord,
    "scram": security.UserScramCredentialRecord,
}
"""The lists of a document whose items are the data of one record."""
SECRETS: Final = ("salt", "storedKey", "serverKey")  # The fields of a SCRAM credential that a shape never has.
LISTS: Final = ("isr", "adding", "removing", "elr", "lastKnownElr")  # A partition's lists of brokers beside `replicas`.
NUMBERS: Final = ("leader", "leaderEpoch", "partitionEpoch", "controllerEpoch", "leaderRecoveryState")
