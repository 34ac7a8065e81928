"""Storms on a KRaft quorum.

`kraft_storm.py` has the state that scenarios share and the measurement of a scenario. `scenarios/` has the scenarios.
`running_controllers.py` finds the session time-out and the processes of controllers that run already.
"""
