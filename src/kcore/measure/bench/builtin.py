"""The built-in plans, as TOML text."""

_WORKLOAD = """
[[workload]]
name = "{}"
partitions = [{}]
brokers = [{}]
repeat = {}
"""


def _plan(*workloads: tuple[str, str, str, int]) -> str:
    """The TOML of a plan from its workloads: each a name, partitions, brokers, and a number of repetitions."""
    return "".join(_WORKLOAD.format(*each) for each in workloads)


_ALL_SIZES = "10_000, 100_000, 1_000_000"
DEFAULT = _plan(
    ("codec", _ALL_SIZES, "100", 1),
    ("election", _ALL_SIZES, "100", 1),
    ("fan-out", _ALL_SIZES, "100", 1),
    ("divergence", _ALL_SIZES, "100", 1),
    ("shapes", "100_000", "100", 1),
)
SMOKE = _plan(
    ("codec", "1_000", "10", 2),
    ("election", "1_000, 2_000", "10", 2),
    ("fan-out", "1_000", "10", 2),
    ("divergence", "1_000, 2_000", "10", 2),
    ("shapes", "1_000", "10", 1),
)
BUILT_IN = {"default": DEFAULT, "smoke": SMOKE}
