"""Stored steps of a running job: the model's answers, and the messages that it sent.

A job whose process crashed restarts, but repeats no model call: each answer is found by its
question. Answers are deleted when the job ends. Messages have numbers; one that an earlier attempt
sent is not sent again.
"""

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import orjson
from django.db.models import F

from core.conversations import jobs
from core.conversations.event_codec import cleaned
from core.database import transactions
from core.lib.text import clean
from core.messages import Message, MessageDict, MessageError, from_dict, to_dict
from core.models import Job, JobStep, Run

ANSWER, MESSAGE = JobStep.Kind.ANSWER, JobStep.Kind.MESSAGE
MOST_ANSWERS = 500
ANSWER_CHARACTERS = 4_000_000  # of all answers of a job
MOST_MESSAGES = 200
MESSAGE_BYTES = 256 * 1024
# Allowed for plugins: no lifecycle events, no messages of the user or of the model's tools.
SENDABLE_NOT = frozenset({"event", "user_input", "tool_call"})


@dataclass
class Answers:
    """The answers of one job by question, including earlier attempts'."""

    job: Job
    _counts: dict[str, int] = field(default_factory=dict)
    _missed: bool = False

    @cached_property
    def _known(self) -> dict[str, str]:
        """Return the stored answers by key."""
        if self.job.attempt < 2:
            return {}
        rows = JobStep.objects.filter(job=self.job, kind=ANSWER)
        return dict(rows.values_list("key", "data"))

    def find(self, question: Any) -> str | None:
        """Return the stored answer to this question, or None."""
        found = self._known.get(self._key(question))
        if found is None:
            self._missed = True
        else:
            self._count(question)
        return found

    def keep(self, question: Any, answer: str) -> None:
        """Store an answer, within the limits. Raises LostJobError."""
        key = self._key(question)
        self._count(question)
        text = clean(answer)
        characters = sum(map(len, self._known.values())) + len(text)
        if len(self._known) >= MOST_ANSWERS or characters > ANSWER_CHARACTERS:
            return
        with transactions.atomic_write():
            if not jobs.is_ours(job=self.job):
                raise jobs.LostJobError
            JobStep.objects.update_or_create(
                job=self.job, kind=ANSWER, key=key, defaults={"data": text}
            )
        self._known[key] = text

    def is_repeating(self) -> bool:
        """Return whether this attempt is still repeating an earlier one."""
        return self.job.attempt > 1 and not self._missed and bool(self._known)

    def _key(self, question: Any) -> str:
        digest = sha256(orjson.dumps(question)).hexdigest()
        return f"{digest}:{self._counts.get(digest, 0)}"

    def _count(self, question: Any) -> None:
        digest = self._key(question).partition(":")[0]
        self._counts[digest] = self._counts.get(digest, 0) + 1


def drop_answers(job_id: int) -> bool:
    """Delete the answers of an ended job; return whether there were any."""
    with transactions.atomic_write():
        rows = JobStep.objects.filter(job_id=job_id, kind=ANSWER, job__state__in=Run.FINAL)
        return rows.delete()[0] > 0


def sendable(message: Message) -> MessageDict:
    """Return a plugin's message in its stored form. Raises MessageError if it may not send it."""
    if message.type in SENDABLE_NOT:
        raise MessageError("type", f"a plugin sends no {message.type} messages")
    if message.delta:
        raise MessageError("delta", "a plugin sends whole messages")
    data = to_dict(message)
    data["props"] = cleaned(data["props"])
    from_dict(data)
    try:
        size = len(orjson.dumps(data))
    except (TypeError, orjson.JSONEncodeError) as error:
        raise MessageError("props", "is no JSON") from error
    if size > MESSAGE_BYTES:
        raise MessageError("props", f"has more than {MESSAGE_BYTES} bytes; return a file instead")
    return data


def say(*, job: Job, number: int, data: MessageDict) -> None:
    """Store message ``number`` (from 1) of a job. Raises LostJobError."""
    if number > MOST_MESSAGES:
        return
    with transactions.atomic_write():
        if not jobs.is_ours(job=job):
            raise jobs.LostJobError
        _, is_new = JobStep.objects.get_or_create(
            job=job,
            kind=MESSAGE,
            key=f"{number:06}",
            defaults={"data": orjson.dumps(data).decode()},
        )
        if is_new:
            Job.objects.filter(id=job.id).update(said=F("said") + 1)
    jobs.announce(job.id)


def messages(*, job_id: int, after: int) -> list[Message]:
    """Return the messages of a job after number ``after``, in order, each with its own id."""
    rows = JobStep.objects.filter(job_id=job_id, kind=MESSAGE, key__gt=f"{after:06}")
    found = []
    for key, data in rows.order_by("key").values_list("key", "data"):
        message = from_dict(orjson.loads(data))
        message.message_id = f"job-{job_id}-{message.message_id or int(key)}"
        found.append(message)
    return found
