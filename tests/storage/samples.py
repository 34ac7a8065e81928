"""The recorded folders of real brokers and controllers, with Kafka's own dumps beside them."""

import cases

SAMPLES = cases.DATA / "samples"
KRAFT43 = SAMPLES / "kraft43"
KRAFT39 = SAMPLES / "kraft39"
OLD_FORMATS = SAMPLES / "old-formats"  # A segment of messages of magic 0 and 1, and a batch of magic 2.
METADATA_43 = KRAFT43 / "controller-3003" / "__cluster_metadata-0"
