"""Topics and their replicas: made, grown, moved, deleted."""
