"""The base of every part of the walk: the known state, and random choices."""

from typing import Any, Final

from kcore.types import Uuid

TOPIC: Final = 2  # ConfigResource.Type
BROKER: Final = 4
UNKNOWN_UUID: Final = "zzzzzzzzzzzzzzzzzzzzzg"
FAR_MS: Final = 550_000  # More than half of the session timeout.
BAD_NAMES: Final = ["", ".", "..", "bad/name", "sp ace", "x" * 250, "a" * 249]


class KnownState:
    """`story` sends what is asked (`ask`), and lets time pass (`advance`); all draws come from its dice."""

    def __init__(self, story: Any) -> Any:
        self.s = story
        self.r = story.random
        self.state = story.state
        self.incarnations, self.dirs, self.racks = {}, {}, {}
        self.names = 0
        self.tokens = []

    def uuid(self) -> Any:
        while True:
            raw = self.r.randbytes(16)
            text = str(Uuid(raw))
            if not text.startswith("-"):
                return text

    def chance(self, p: Any) -> Any:
        return self.r.random() < p

    def pick(self, things: Any) -> Any:
        things = list(things)
        return self.r.choice(things) if things else None

    def sample(self, things: Any, count: Any) -> Any:
        things = list(things)
        return self.r.sample(things, min(count, len(things)))

    @property
    def live(self) -> Any:
        return [b for b in self.state.brokers.values() if not b.fenced and not b.shutting]

    @property
    def all(self) -> Any:
        return sorted(self.state.brokers)

    def broker_id(self) -> Any:
        return self.r.choice(self.all) if self.all else 1

    def partition(self, want: Any = None) -> Any:
        keys = sorted(k for k, p in self.state.partitions.items() if want is None or want(p))
        return self.state.partitions[self.r.choice(keys)] if keys else None

    def topic(self) -> Any:
        return self.r.choice(sorted(self.state.topics)) if self.state.topics else None

    def some_version(self, api: Any) -> Any:
        lowest, highest = self.s.api_versions[api]
        if api == "BrokerRegistration":
            lowest = 1
        return self.r.randint(lowest, highest) if self.chance(0.25) else highest

    def has(self, api: Any, version: Any = 0) -> Any:
        return api in self.s.api_versions and self.s.api_versions[api][1] >= version

    def epoch_of(self, broker_id: Any) -> Any:
        b = self.state.brokers.get(broker_id)
        return b.epoch if b else -1
