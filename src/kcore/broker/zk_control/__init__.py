"""The control requests of a ZooKeeper-mode controller to a broker: LeaderAndIsr, UpdateMetadata and StopReplica.

`control_requests.py` checks which controller a request is from and which incarnation of the broker it is for, then each
partition's leader epoch and topic id, and passes on to the replicas what is new. `broker.py` is such a receiver with
replicas that are only remembered: what tests and hollow brokers hold.
"""
