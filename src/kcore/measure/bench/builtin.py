"""The built-in plans, as the TOML that `--print-plan` would show for a file."""

DEFAULT = """
[[workload]]
name = "codec"
partitions = [10_000, 100_000, 1_000_000]
brokers = [100]
repeat = 1

[[workload]]
name = "election"
partitions = [10_000, 100_000, 1_000_000]
brokers = [100]
repeat = 1

[[workload]]
name = "fan-out"
partitions = [10_000, 100_000, 1_000_000]
brokers = [100]
repeat = 1

[[workload]]
name = "divergence"
partitions = [10_000, 100_000, 1_000_000]
brokers = [100]
repeat = 1

[[workload]]
name = "shapes"
partitions = [100_000]
brokers = [100]
repeat = 1
"""

SMOKE = """
[[workload]]
name = "codec"
partitions = [1_000]
brokers = [10]
repeat = 2

[[workload]]
name = "election"
partitions = [1_000, 2_000]
brokers = [10]
repeat = 2

[[workload]]
name = "fan-out"
partitions = [1_000]
brokers = [10]
repeat = 2

[[workload]]
name = "divergence"
partitions = [1_000, 2_000]
brokers = [10]
repeat = 2

[[workload]]
name = "shapes"
partitions = [1_000]
brokers = [10]
repeat = 1
"""

BUILT_IN = {"default": DEFAULT, "smoke": SMOKE}
