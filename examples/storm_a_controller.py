"""Storm a controller from a program: run the command with --json and read a row a scenario from its output.

The target here is kcore's own KRaft controller, which needs no Java. `kafka-4.4.0` starts Kafka's, and `HOST:PORT`
names one that runs.
"""

import json
import subprocess
import sys

command = [sys.executable, "-m", "kcore", "storm", "register", "create", "controlled-shutdown", "--json"]
options = ["--target", "kcore-kraft", "--brokers", "4", "--partitions", "100", "--out", "storm-results"]
done = subprocess.run([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
for line in done.stdout.splitlines():
    row = json.loads(line)
    print(f"{row['scenario']}: the last of {row['brokers']} brokers knew after {row['last_ms']:.0f} ms")

# Prints:
# register: the last of 4 brokers knew after ... ms
# create: the last of 4 brokers knew after ... ms
# controlled-shutdown: the last of 3 brokers knew after ... ms
