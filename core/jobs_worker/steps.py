"""What a job keeps while it runs: the model's answers, and the messages that it sent.

A job whose process died begins again from the start, but asks the model nothing a second time: each
answer is found again by its question. Answers go when the job is over. Messages have numbers; one
that an earlier attempt sent already is not sent again.
"""

from dataclasses import dataclass, field
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
from core.signals import pubsub

ANSWER, MESSAGE = JobStep.Kind.ANSWER, JobStep.Kind.MESSAGE
MOST_ANSWERS = 500
ANSWER_CHARACTERS = 4_000_000  # of all answers of a job
MOST_MESSAGES = 200
MESSAGE_BYTES = 256 * 1024
# What a plugin may say: no lifecycle, nothing in the name of the person or of the model's tools.
SENDABLE_NOT = frozenset({"event", "user_input", "tool_call"})


@dataclass
class Answers:
    """The answers of one job by question; those of earlier attempts are found again."""

    job: Job
    _known: dict[str, str] | None = None
    _counts: dict[str, int] = field(default_factory=dict)
    _characters: int = 0
    _missed: bool = False

    def find(self, question: Any) -> str | None:
        """The answer that an earlier attempt got to this question, or None: then ask."""
        if self._known is None:
            self._known = kept(self.job)
            self._characters = sum(map(len, self._known.values()))
        found = self._known.get(self._key(question))
        if found is None:
            self._missed = True
        else:
            self._count(question)
        return found

    def keep(self, question: Any, answer: str) -> None:
        """Write an answer down, within the bounds. Raises LostJobError."""
        key = self._key(question)
        self._count(question)
        text = clean(answer)
        known = self._known or {}
        if len(known) >= MOST_ANSWERS or self._characters + len(text) > ANSWER_CHARACTERS:
            return
        with transactions.atomic_write():
            if not jobs.is_ours(job=self.job):
                raise jobs.LostJobError
            JobStep.objects.update_or_create(
                job=self.job, kind=ANSWER, key=key, defaults={"data": text}
            )
        known[key] = text
        self._known = known
        self._characters += len(text)

    def is_repeating(self) -> bool:
        """Whether this attempt is still where an earlier one was already."""
        if self.job.attempt < 2 or self._missed:
            return False
        if self._known is None:
            self._known = kept(self.job)
        return bool(self._known)

    def _key(self, question: Any) -> str:
        digest = sha256(orjson.dumps(question)).hexdigest()
        return f"{digest}:{self._counts.get(digest, 0)}"

    def _count(self, question: Any) -> None:
        digest = self._key(question).partition(":")[0]
        self._counts[digest] = self._counts.get(digest, 0) + 1


def kept(job: Job) -> dict[str, str]:
    """The answers that were kept of a job, by key."""
    if job.attempt < 2:
        return {}
    rows = JobStep.objects.filter(job=job, kind=ANSWER)
    return dict(rows.values_list("key", "data"))


def drop_answers(job_id: int) -> bool:
    """Remove the answers of a job that is over; whether there were any."""
    with transactions.atomic_write():
        rows = JobStep.objects.filter(job_id=job_id, kind=ANSWER, job__state__in=Run.FINAL)
        return rows.delete()[0] > 0


def sendable(message: Message) -> MessageDict:
    """A message as it is kept. Raises MessageError for one that a plugin may not send."""
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
    """Keep message ``number`` (from 1) of a job for its reader. Raises LostJobError."""
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
    pubsub.publish([{"keys": [f"job:{job.id}"], "kind": "job"}])


def messages(*, job_id: int, after: int) -> list[Message]:
    """The messages of a job after number ``after``, in order, each under an id of its own."""
    rows = JobStep.objects.filter(job_id=job_id, kind=MESSAGE, key__gt=f"{after:06}")
    found = []
    for key, data in rows.order_by("key").values_list("key", "data"):
        message = from_dict(orjson.loads(data))
        message.message_id = f"job-{job_id}-{message.message_id or int(key)}"
        found.append(message)
    return found
