"""Wait for a tool's job: progress goes to the run's log, at regular intervals."""

import re
import time
from contextlib import aclosing
from functools import partial
from typing import Any

from django.conf import settings

from core.conversations import jobs
from core.conversations.jobs import View
from core.database.transactions import patiently
from core.files import storage
from core.jobs_worker import steps
from core.messages import Message, audio_message, image_message, progress, video_message
from core.models import Run, StoredFile
from core.tools import languages, phrases
from core.tools.base import ToolContext, ToolResult

# With a check every core.conversations.jobs.POLL_SECONDS no pause is longer than 4 s; the
# promise is 5.
# In the chat; into its row a job writes more often (TELL_SECONDS of core/jobs_worker/host.py).
PROGRESS_SECONDS = 3.0
QUEUED_SECONDS = 10.0
WAITING = "Waiting for a free worker…"
STOPPED = "The task was stopped."
REASON = re.compile(r"” \(([^()”]+)\)")  # as core.jobs_worker.sources writes it


class Teller:
    """Report a job's progress: news immediately, and otherwise every PROGRESS_SECONDS."""

    def __init__(self, *, context: ToolContext, tool: str, line: str, now: float) -> None:
        """Take the ``line`` that the user has already seen."""
        self._context, self._tool, self._line = context, tool, line
        self._language = languages.of_request(context.request)
        self._said: tuple[str, int | None] = ("", None)
        self._began = self._at = self._told = now

    def hear(self, view: View, *, now: float) -> None:
        """Take the job's state; report it when it is new or due."""
        message = view.message or self._line
        if view.state == Run.State.QUEUED and now - self._began > QUEUED_SECONDS:
            message = WAITING
        is_known = not view.message and message == self._line
        message = phrases.in_language(message, self._language)
        news = (message, view.percent)
        if news != self._said and not is_known:
            self._at = now
        elif now - self._told < PROGRESS_SECONDS:
            return
        else:
            message = f"{message} ({since(now - self._began)})"
        self._said, self._told = news, now
        self._context.emit(progress(message, tool=self._tool, percent=view.percent))


def since(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


async def outcome(
    *, context: ToolContext, tool: str, parameters: dict[str, Any], line: str
) -> ToolResult:
    """Start the job of a tool call, or find it, and wait for its end: the answer for the user."""
    begin = partial(
        jobs.begin,
        run_id=context.run_id,
        call_id=context.tool_call_id,
        tool=tool,
        parameters=parameters,
    )
    job_id = await patiently(begin)
    context.more_time(settings.JOB_SECONDS)
    teller = Teller(context=context, tool=tool, line=line, now=time.monotonic())
    last: View | None = None
    said = 0
    async with aclosing(jobs.follow(job_id=job_id)) as views:
        async for last in views:
            said = await pass_on(context, job_id, last, said)
            if not last.is_over:
                teller.hear(last, now=time.monotonic())
    return await patiently(partial(told, last, languages.of_request(context.request)))


async def pass_on(context: ToolContext, job_id: int, view: View, said: int) -> int:
    """Emit the messages that a job sent after the first ``said``; return their new number."""
    if view.said <= said:
        return said
    found = await patiently(partial(steps.messages, job_id=job_id, after=said))
    for message in found:  # may be more than in the view: some arrived since it was read
        context.send(message)
    return said + len(found)


def told(view: View | None, language: str = "en") -> ToolResult:
    """Return the user's view of an ended job: a link to each file, media as media messages."""
    if view is None or view.state == Run.State.CANCELLED:
        return ToolResult(phrases.in_language(STOPPED, language), ok=False, final=True)
    if view.state == Run.State.FAILED:
        return ToolResult(phrases.in_language(view.error, language), ok=False, final=True)
    rows = in_order(view.result.get("files", []))
    media = {row.public_id: message for row in rows if (message := medium_of(row)) is not None}
    made = [shown(row) for row in rows]
    text = phrases.in_language(view.result.get("text", ""), language)
    notes = [noted(note, language) for note in view.result.get("note", "").splitlines()]
    links = [each["url"] for each in made if each["id"] not in media]
    lines = [text, *links, *(f"\n{note}" for note in notes)]
    return ToolResult(
        "\n".join(line for line in lines if line),
        files=[each for each in made if not is_picture(each)],
        messages=list(media.values()),
        final=True,
    )


def noted(note: str, language: str) -> str:
    """Return a note in a language, with the reasons that stand after the names of documents."""

    def reason(found: re.Match[str]) -> str:
        return f"” ({phrases.in_language(f'{found[1]}.', language).rstrip('.。')})"

    return phrases.in_language(REASON.sub(reason, note), language)


def is_picture(made: dict[str, str]) -> bool:
    """Return whether a file is sent as a picture ([T7]) and not as a document too."""
    return made["type"] in storage.PICTURES and int(made["size"]) <= storage.INLINE_BYTES


def medium_of(file: StoredFile) -> Message | None:
    """Return a picture, a recording or a video as a message; None for any other file."""
    name, url = f"file-{file.public_id}", storage.link(file)
    extension = file.name.rpartition(".")[2].lower()
    if is_picture(shown(file)):
        return image_message(url, file.name, message_id=name)
    match file.content_type.partition("/")[0]:
        case "audio":
            return audio_message(url, extension, message_id=name)
        case "video":
            return video_message(url, message_id=name, props={"url": url, "format": extension})
    return None


def in_order(names: list[str]) -> list[StoredFile]:
    """Return the files of a result, in the order of their creation."""
    rows = StoredFile.objects.in_bulk(names, field_name="public_id")
    return [rows[name] for name in names if name in rows]


def shown(file: StoredFile) -> dict[str, str]:
    return {
        "id": file.public_id,
        "name": file.name,
        "type": file.content_type,
        "size": str(file.size),
        "url": storage.link(file),
    }
