"""Leaders and ISRs: elections that are requested or preferred, and ISRs that leaders change.

`requested_elections.py`, `isr.py`, `unclean.py`, `directories.py`.
"""
