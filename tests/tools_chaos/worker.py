"""Two ``runs`` workers that are forked again when they die: ``python -m tests.tools_chaos.worker``.

Most of them kill themselves at a step of a question or a call, until CHAOS_FOLDER has a file
``over``.
"""

from functools import partial

from tests.chaos.worker import around, keep_forking, work_and_die

CALLS = "core.conversations.tool_calls"
STEPS = around(
    (CALLS, "pause"),
    (CALLS, "kept_for"),
    (CALLS, "start"),
    (CALLS, "finish"),
    ("tests.tools_chaos.effect", "carry_out"),
    ("channels_app.tool_requests.asking", "put"),
    ("core.conversations.runs", "settle"),
    ("core.conversations.outbox", "sent"),
)

if __name__ == "__main__":
    work = partial(work_and_die, STEPS, at_most=4)
    keep_forking(work, "celery.concurrency.thread", "tests.tools_chaos.effect", workers=2)
