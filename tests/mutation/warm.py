"""Run before the first fork, so that everything shared is up after it."""


def test_the_broker_and_the_database_are_up(db: None) -> None:
    """The fixtures start them."""
