"""The fetcher's side of its incremental fetch session with one leader (KIP-227).

Source: FetchSessionHandler of 4.3.1.
"""

from collections.abc import Mapping

from kcore.broker.replicas.fetch_sessions import INITIAL_EPOCH, NO_SESSION, next_epoch
from kcore.broker.replicas.replica import Key
from kcore.protocol_errors import Errors
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kcore.types import Uuid

Asked = tuple[Uuid, FetchPartition]


class FetchSessionHandler:
    """Keeps the partitions that the leader's session has. One request is in flight at a time."""

    def __init__(self) -> None:
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self._partitions: dict[Key, Asked] = {}

    @property
    def is_full(self) -> bool:
        """Whether the request lists all fetched partitions."""
        return self.epoch == INITIAL_EPOCH

    def fill(self, request: FetchRequest, wanted: Mapping[Key, Asked]) -> None:
        """Fills the request so that the session fetches `wanted`, in that order: only changes, after a full request."""
        request.session_id, request.session_epoch = self.session_id, self.epoch
        before = {} if self.is_full else self._partitions
        self._partitions = dict(wanted)
        topics: dict[tuple[str, Uuid], FetchTopic] = {}
        for key, asked in wanted.items():
            if before.get(key) != asked:
                topic = topics.setdefault(
                    (key[0], asked[0]), FetchTopic(topic=key[0], topic_id=asked[0], partitions=[])
                )
                topic.partitions.append(asked[1])
        forgotten: dict[tuple[str, Uuid], ForgottenTopic] = {}
        for (name, index), (topic_id, _) in before.items():
            if (name, index) not in wanted or wanted[name, index][0] != topic_id:  # The topic was created again.
                forgotten.setdefault(
                    (name, topic_id), ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
                ).partitions.append(index)
        request.topics, request.forgotten_topics_data = [*topics.values()], [*forgotten.values()]

    def answered(self, response: FetchResponse) -> bool:
        """False if the answer must be ignored: it is an error, or has other partitions than the session."""
        if response.error_code != Errors.NONE:
            self.failed()
            if response.error_code == Errors.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            return False
        by_id = {topic_id: name for (name, _), (topic_id, _) in self._partitions.items()}
        answered = {
            (topic.topic or by_id.get(topic.topic_id, ""), each.partition_index)
            for topic in response.responses
            for each in topic.partitions
        }
        known = self._partitions.keys()
        if not (answered == known if self.is_full else answered <= known):
            self.failed()
            return False
        self.session_id = response.session_id
        self.epoch = INITIAL_EPOCH if response.session_id == NO_SESSION else next_epoch(self.epoch)
        return True

    def failed(self) -> None:
        """No valid answer arrived: the next request closes the session and opens a new one."""
        self.epoch = INITIAL_EPOCH
