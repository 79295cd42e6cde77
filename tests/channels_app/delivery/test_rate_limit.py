"""The platform's rate limits: per chat, per group and minute, per account and second;
retry_after.
"""

from channels_app.base import Pace
from channels_app.delivery.rate_limit import Pacer

PACE = Pace(per_second=3, chat_seconds=1.0, group_per_minute=2)


def wait(pacer: Pacer, chat: str, now: float, *, account_id: int = 1, most: float = 99.0) -> float:
    """Reserve a time; return the seconds to wait."""
    return pacer.reserve(
        account_id=account_id,
        chat=chat,
        pace=PACE,
        is_group=chat.startswith("-"),
        most=most,
        now=now,
    )


def test_one_message_a_second_in_a_chat() -> None:
    pacer = Pacer()
    assert [wait(pacer, "a", 10.0) for _ in range(3)] == [0.0, 1.0, 2.0]
    assert wait(pacer, "b", 10.0) == 0.0


def test_a_group_has_so_many_a_minute() -> None:
    pacer = Pacer()
    assert [wait(pacer, "-1", 10.0), wait(pacer, "-1", 12.0)] == [0.0, 0.0]
    assert wait(pacer, "-1", 14.0) == 56.0


def test_an_account_has_so_many_a_second() -> None:
    pacer = Pacer()
    assert [wait(pacer, chat, 10.0) for chat in "abc"] == [0.0, 0.0, 0.0]
    assert wait(pacer, "d", 10.0) == 1.0
    assert wait(pacer, "d", 10.0, account_id=2) == 0.0


def test_a_turn_that_is_too_far_away_is_not_taken() -> None:
    pacer = Pacer()
    wait(pacer, "a", 10.0)
    assert wait(pacer, "a", 10.0, most=0.5) == 1.0
    assert wait(pacer, "a", 10.0) == 1.0


def test_retry_after_holds_its_chat_and_the_account_only_when_two_chats_were_told() -> None:
    pacer = Pacer()
    pacer.hold(account_id=1, chat="a", seconds=5, now=10.0)
    assert wait(pacer, "a", 10.0) == 5.0
    assert wait(pacer, "b", 10.0) == 0.0
    pacer.hold(account_id=1, chat="b", seconds=7, now=10.0)
    assert wait(pacer, "c", 10.0) == 7.0
    assert wait(pacer, "c", 10.0, account_id=2) == 0.0
    assert wait(pacer, "e", 18.0) == 0.0


def test_a_search_has_its_own_times_in_a_chat() -> None:
    pacer = Pacer()

    def search(now: float) -> float:
        return pacer.reserve(
            account_id=1, chat="a", pace=PACE, is_group=False, most=0.5, now=now, kind="search"
        )

    assert [wait(pacer, "a", 10.0) for _ in range(3)] == [0.0, 1.0, 2.0]
    assert [search(14.0), search(14.0)] == [0.0, PACE.find_seconds]
    pacer.hold(account_id=1, chat="a", seconds=5, now=15.0)
    assert search(15.0) == 5.0
