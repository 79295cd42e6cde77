"""A cheap, careful estimate of how many tokens a text costs; real tokenizers differ by model."""


def estimate(text: str) -> int:
    """Tokens of ``text``: four ASCII characters, or one of any other script, count as one."""
    ascii_characters = len(text.encode("ascii", "ignore"))
    return ascii_characters // 4 + (len(text) - ascii_characters) + 4
