"""Commands that read files and bytes: `image`, `dump`, `diverge`, `messages`, `decode` and `encode`."""
