"""A lease as its holder measures it ([RC8])."""

import time

import pytest

from core.lib import leases


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time of the clock that counts suspended time too, in a list to change it."""
    now = [100.0]
    monkeypatch.setattr(leases, "elapsed", lambda: now[0])
    return now


def test_rc8_a_lease_ends_by_a_clock_that_counts_the_time_of_a_suspended_machine() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = leases.elapsed()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_rc8_a_lease_counts_from_its_request_and_so_does_its_renewal(clock: list[float]) -> None:
    lease, late = leases.Lease(seconds=10), leases.Lease(seconds=10, began=95.0)
    assert (lease.seconds, lease.left, late.left) == (10, 10.0, 5.0)
    clock[0] = 104.0
    assert (lease.left, late.left) == (6.0, 1.0)
    late.renew(began=103.0)
    assert (late.left, leases.OWN_LEASE < 1) == (9.0, True)


def test_rc8_no_call_is_made_under_a_lease_from_its_end_on(clock: list[float]) -> None:
    """Of nested ones the inner one counts; without one every call is made."""
    lease = leases.Lease(seconds=10)
    with leases.under(lease):
        leases.check()
        clock[0] = 110.0
        with pytest.raises(leases.LeaseOverError):
            leases.check()
        with leases.under(leases.Lease(seconds=1)):
            leases.check()
        with pytest.raises(leases.LeaseOverError):
            leases.check()
    leases.check()
