"""Two ``runs`` workers that are forked again when they die: ``python -m
tests.schedules_chaos.worker``.

Four of five kill themselves at a step of firing, unless CHAOS_FOLDER has a file ``calm``.
"""

from functools import partial

from tests.chaos.worker import around, keep_forking, work_and_die

FIRING = "channels_app.schedules.firing"
STEPS = around(
    (FIRING, "take_batch"),
    (FIRING, "fire"),
    (FIRING, "send"),
    (FIRING, "carry_out"),
    (FIRING, "follow"),
    ("core.conversations.schedules.occurrences", "plan"),
    ("core.conversations.schedules.occurrences", "settle"),
)

if __name__ == "__main__":
    work = partial(work_and_die, STEPS, at_most=6)
    keep_forking(work, "celery.concurrency.thread", FIRING, workers=2)
