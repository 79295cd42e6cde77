"""Run before the first fork: whatever is started once is up after it."""


def test_the_broker_and_the_database_are_up(db: None) -> None:
    """The fixtures are what matters."""
