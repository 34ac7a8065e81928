"""How the metadata log tells a broker what it holds: `publisher.py`, of one broker.

It takes what changed between two offsets (`MetadataDelta`) with the state after it, and calls the same orders as
`zk_control/` does: `become`, `stop`, `hold_only`. No broker epoch and no controller epoch is checked here: the order of
the log takes their place. Log directories are not looked at yet.
"""
