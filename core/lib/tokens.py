"""An estimate of the tokens of a text, at least those of usual prose, code, JSON and numbers.

Tokenizers differ by model. Byte-level vocabularies of 50,000 tokens need up to twice as many as
estimated for scripts that they hardly know; no tokenizer needs more than one a byte.
"""

import string

# Long words and runs of spaces are few tokens; a capital, a digit or a sign often begins one.
CHEAP = (string.ascii_lowercase + string.whitespace).encode()
ASCII = bytes(range(128))
EACH_TEXT = 4  # the role, and the marks around it
EACH_CALL = 32  # its id, twice, and the marks around it


def estimate(text: str) -> int:
    """Return the tokens: four lower-case letters or spaces are one, or one other ASCII character,
    or two bytes of UTF-8 of any other.
    """
    whole = text.encode(errors="surrogatepass")
    dear = whole.translate(None, CHEAP)
    cheap = (len(whole) - len(dear) + 3) // 4
    if text.isascii():
        return cheap + len(dear) + EACH_TEXT
    others = len(dear.translate(None, ASCII))
    return cheap + len(dear) - others + (others + 1) // 2 + EACH_TEXT


def of_calls(calls: list[dict[str, str]]) -> int:
    """Return the tokens of calls of tools with their results, as ``Message.calls`` has them."""
    return sum(
        estimate(each["name"]) + estimate(each["arguments"]) + estimate(each["result"]) + EACH_CALL
        for each in calls
    )
