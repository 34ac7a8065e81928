"""The finalized features in the ApiVersions responses of a KRaft controller (FeaturesPublisher, FinalizedFeatures)."""

from collections.abc import Mapping

from kcore.constants import KRAFT_VERSION
from kcore.controller.kraft.controller import KraftController
from kcore.java_hash import hash_map_order
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.releases.known import RELEASES
from kcore.schema.api_versions import ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey


class FinalizedFeatures:
    """Puts the finalized levels into an ApiVersions response, once they are committed."""

    def __init__(self, release: str) -> None:
        self._release = release
        self._decided = -1, -1  # The number of feature records, and the end offset of the last one's batch.
        self._shown: tuple[dict[str, int], int] | None = None

    def show(self, controller: KraftController, answer: ApiVersionsResponse | None) -> None:
        """Changes the response if the committed levels differ. `answer`: None while there is no server.

        finalized_features_epoch is the last offset of the batch with the last FeatureLevelRecord, even if this record
        changes nothing. Before the first record it is -1, and metadata.version is the release's oldest.
        """
        image, (count, end_offset) = controller.image, self._decided
        if image.feature_records != count or end_offset > image.end_offset:
            self._decided = image.feature_records, image.end_offset
        if controller.stable < self._decided[1] or answer is None:
            return
        level = controller.raft.kraft_version
        if RELEASES[self._release].rules.kraft_version_is_a_feature:  # Shown if raft's level is 0.
            level = level or image.written_kraft_version
        oldest = {} if image.features else {FEATURE_NAME: controller.context.version.feature_level}
        finalized = {**oldest, **image.features, KRAFT_VERSION: level}, -1 if oldest else self._decided[1] - 1
        if self._shown != finalized:
            self._shown = finalized
            _put(answer, controller.context.config.node.supported_features, *finalized)


def _put(
    answer: ApiVersionsResponse, supported: Mapping[str, tuple[int, int]], finalized: Mapping[str, int], offset: int
) -> None:
    answer.supported_features = [
        SupportedFeatureKey(name=name, min_version=supported[name][0], max_version=supported[name][1])
        for name in hash_map_order(supported)
    ]
    answer.finalized_features_epoch = offset
    answer.finalized_features = [
        FinalizedFeatureKey(name=name, min_version_level=finalized[name], max_version_level=finalized[name])
        for name in _listed([name for name, level in finalized.items() if level > 0])
    ]


def _listed(names: list[str]) -> list[str]:
    """Sorts finalized features as Kafka's response does, which copies a HashMap: each copy has the least capacity.

    Source: FinalizedFeatures, whose constructor adds metadata.version, and setFinalizedLevel.
    """
    listed = hash_map_order(sorted({*names} - {FEATURE_NAME, KRAFT_VERSION}))
    listed = hash_map_order([*listed, FEATURE_NAME], capacity=_capacity(listed))
    if KRAFT_VERSION not in names:
        return listed
    listed = hash_map_order([*listed, KRAFT_VERSION], capacity=_capacity(listed))
    return hash_map_order(listed, capacity=_capacity(listed))


def _capacity(names: list[str]) -> int:
    """The capacity that `new HashMap(map)` takes."""
    return int(len(names) / 0.75 + 1)
