"""Topics and partitions are made, moved and deleted."""

from typing import Final

from kcore.errors import TargetError
from kcore.hollow.outcome import Outcome
from kcore.hollow.storm import Measure, Storm
from kcore.protocol_errors import Errors
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest

MOST_RECORDS: Final = 9_900  # Of a request: the controller refuses one of more than 10,000 records as a whole.
_TIMEOUT_MS: Final = 60_000


async def create(storm: Storm) -> Outcome:
    """Topics of the storm's sizes, in requests as large as the controller takes, until the last broker knows them all.

    Requests go one after the other, each when the one before is answered.
    """
    measure = Measure(storm, "create")
    wanted = storm.fresh_topics()
    await measure.begin()
    for request in requests_for(wanted, storm.sizes.replication_factor):
        answer = await storm.quorum.ask(request)
        refused = {Errors.of(each.error_code).name for each in answer.topics if each.error_code}
        if refused:
            raise TargetError(f"CreateTopics was refused: {', '.join(sorted(refused))}")
    measure.answered()
    storm.topics += [name for name, _ in wanted]
    return await measure.end("PartitionRecord")


def requests_for(topics: list[tuple[str, int]], replication_factor: int) -> list[CreateTopicsRequest]:
    """Topics, by name and partitions, in requests that the controller takes: a record a topic and one a partition."""
    requests: list[CreateTopicsRequest] = []
    records = MOST_RECORDS
    for name, partitions in topics:
        if records + 1 + partitions > MOST_RECORDS:
            requests.append(CreateTopicsRequest(topics=[], timeout_ms=_TIMEOUT_MS))
            records = 0
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
        requests[-1].topics.append(topic)
        records += 1 + partitions
    return requests
