"""A cluster of three racks: the worst pair of brokers to lose, and a rolling restart with the fewest steps."""

import kcore

cluster = kcore.generate(partitions=30_000, brokers=24, replication_factor=3, topics=300, seed=1, racks=3)
asked = kcore.what_if(cluster, release="4.3.1", min_isr=2)

rack = asked.lose(racks=["rack-1"])
print(f"without rack-1: {rack.moved_leaders:,} leaders move, {rack.new_under_min_isr} partitions under min ISR")

worst = asked.pairs().worst(1)[0]
print(f"without brokers {worst['broker']} and {worst['other_broker']}: {worst['under_min_isr']} under min ISR")

plan = asked.restart_plan()
print(f"{len(plan.steps)} steps, no plan has fewer: {plan.is_fewest_steps}")
for step in plan.steps:
    print("restart", *step.brokers, "with", step.under_min_isr, "partitions under min ISR")

# Prints:
# without rack-1: 9,999 leaders move, 0 partitions under min ISR
# without brokers 4 and 5: 1122 under min ISR
# 3 steps, no plan has fewer: True
# restart 2 5 8 11 14 17 20 23 with 0 partitions under min ISR
# restart 1 4 7 10 13 16 19 22 with 0 partitions under min ISR
# restart 0 3 6 9 12 15 18 21 with 0 partitions under min ISR
