"""Keys are left out of errors: some servers repeat the key that they refuse."""

from core.providers.base import ProviderError

SHORTEST_PIECE = 4  # characters of a key that would tell something of it


def without_key(error: ProviderError, key: str) -> ProviderError:
    """Return the same error without the key, which some servers repeat in their errors."""
    return ProviderError(
        hide(str(error), key),
        code=error.code,
        retry_after=error.retry_after,
        reason=hide(error.reason, key),
    )


def hide(text: str, key: str) -> str:
    """Return ``text`` with ``[key]`` in place of ``key``, also where the text was cut within it."""
    if len(key) < SHORTEST_PIECE:
        return text
    text = text.replace(key, "[key]")
    bare = text.removesuffix("…")
    for length in range(min(len(key) - 1, len(bare)), SHORTEST_PIECE - 1, -1):
        if bare.endswith(key[:length]):
            return f"{bare[:-length]}[key]…"
    return text
