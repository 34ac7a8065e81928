"""Commands that run servers, format their directories, and ask a quorum about its state."""
