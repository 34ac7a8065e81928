"""Columns of strings, one string after the other: the twin of `kcore._ext.columns.vectors`."""


def starts_group(texts: list[bytes]) -> list[bool]:
    """Whether each string differs from the one before; the first always does."""
    return [k == 0 or text != texts[k - 1] for k, text in enumerate(texts)]


def repeat(texts: list[bytes], counts: list[int]) -> list[bytes]:
    """Every string as often as its count says."""
    return [text for text, count in zip(texts, counts, strict=True) for _ in range(count)]
