"""The data of a world that checkers read: time, options, machines, network, and the facts about what has happened."""

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from kcore.sim.kernel.events import Kernel
from kcore.sim.kernel.network import Network
from kcore.sim.raft.committed import Facts
from kcore.sim.raft.options import Options
from kcore.sim.raft.simulated_machine import Machine
from kcore.types import Uuid

NOTABLE: Final = 40  # The number of notable events that a story tells.


class WorldState(Kernel):
    """The data of a world; its subclasses act on this data."""

    cluster_id: Final = "simulated-cluster-id00"

    def __init__(self, seed: int, options: Options, more_options: object = "") -> None:
        super().__init__(seed, f"{options!r}{more_options}")
        self.options = options
        self.is_healing = False
        self.seen: Counter[Any] = Counter()  # Counts of events by name, for the coverage.
        self.taken: Counter[tuple[str, Any, str]] = Counter()  # State transitions of nodes whose process has ended.
        self.notable: deque[tuple[int, Callable[[], str]]] = deque(maxlen=NOTABLE)  # A story begins with these.
        self.facts = Facts()
        self.network = Network(options.links, options.voters + options.observers, self.random)
        self.machines: list[Machine] = []

    def notes(self, text: Callable[[], str]) -> None:
        """Adds a notable event to the story; only a story makes its text."""
        self.notable.append((self.now_us, text))

    def new_directory(self) -> Uuid:
        """A random directory id."""
        return Uuid(self.random.randbytes(16))
