"""A clock of a module that stands still until a test moves it."""


class Clock:
    """In place of the module ``time``; ``now``: seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return the time, as ``time.monotonic``."""
        return self.now
