"""The recorded folders of real brokers and controllers, with Kafka's own dumps beside them."""

import cases

SAMPLES = cases.DATA / "samples"
KRAFT43 = SAMPLES / "kraft43"
KRAFT39 = SAMPLES / "kraft39"
METADATA_43 = KRAFT43 / "controller-3003" / "__cluster_metadata-0"
