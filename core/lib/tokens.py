"""A cheap, conservative estimate of the tokens of a text; real tokenizers differ by model."""


def estimate(text: str) -> int:
    """Return the tokens: four ASCII characters, or one of another script, count as one."""
    ascii_characters = len(text.encode("ascii", "ignore"))
    return ascii_characters // 4 + (len(text) - ascii_characters) + 4
