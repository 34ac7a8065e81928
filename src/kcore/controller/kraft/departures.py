"""Where kcore's controller does better than Kafka's, by default; each can be switched back to Kafka's way.

`KraftControllerConfig.kafka_way` has the names of those that are switched back.
"""

from typing import Final

RECORD_LIMITS: Final = "record-limits"
CLEAN_BOUNCE_WAITS: Final = "clean-bounce-waits"
FENCES_ONE_BY_ONE: Final = "fences-one-by-one"

DEPARTURES: Final = {
    RECORD_LIMITS: "Kafka refuses a request that makes more than 10,000 records; kcore writes them.",
    CLEAN_BOUNCE_WAITS: (
        "Kafka refuses a broker that restarts after its controlled shutdown until the session of its last incarnation "
        "has ended; kcore takes it in once the last incarnation was told that it may stop."
    ),
    FENCES_ONE_BY_ONE: (
        "Kafka fences brokers whose sessions end together one by one, and each elects among those that are next; kcore "
        "fences them in one decision, which elects none of them and leaves an ISR of them alone as it is."
    ),
}
"""By name: what Kafka does, and what kcore does in its place."""

KAFKA_WAY: Final = frozenset(DEPARTURES)
"""All switched back: the controller decides as Kafka's does, except where Kafka's throws and gives up leadership."""
