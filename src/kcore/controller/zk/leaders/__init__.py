"""Leaders and ISRs."""
