"""Commands that measure: `bench`, `storm`, `rivals`, `compare`, `top` and `sim`, with their results folder."""
