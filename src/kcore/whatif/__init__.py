"""The public names for questions about a cluster: what the loss of a broker, a rack or a directory would do.

A question takes the state of a cluster, decides by the rules of `kcore.replication` what its controller would change,
and counts the result. It changes nothing. Lost brokers leave the ISRs and lead nothing, as brokers that KRaft fences
all at once, or that fail in ZooKeeper mode. The work of a question is in proportion to the partitions that the lost
brokers replicate.

- `cluster`: the tables, the rules, the settings, and the counts before any loss.
- `scenario`: the brokers, racks and directories that are lost together; reads a file of scenarios.
- `effects`: the decision about some partitions, and what it changes for each of them.
- `outcome`: the counts of a scenario.
- `pairs`: the outcomes of all pairs of brokers, from those of single brokers and of the partitions that both share.
- `restart`: the classes of risk of each broker's restart.
- `restart_groups`, `restart_order`, `restart_plan`: brokers that may restart together, and a rolling restart.
- `after_loss`, `reassignment`: the cluster after a loss, and after the reassignments of a file have completed.
- `what_if`: the questions as methods of one object.
"""

from kcore.whatif.outcome import Health as Health
from kcore.whatif.outcome import Outcome as Outcome
from kcore.whatif.pairs import PairOutcomes as PairOutcomes
from kcore.whatif.restart import RestartRisk as RestartRisk
from kcore.whatif.restart_plan import RestartPlan as RestartPlan
from kcore.whatif.restart_plan import RestartStep as RestartStep
from kcore.whatif.scenario import Scenario as Scenario
from kcore.whatif.what_if import WhatIf as WhatIf
from kcore.whatif.what_if import what_if as what_if
