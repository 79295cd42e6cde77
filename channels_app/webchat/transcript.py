"""The history shown on the page, and the final frame of an answer: rows and logs as JSON."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from channels_app.agent_sessions import results
from channels_app.models import SourceFeedback
from channels_app.rendering.answer import Reply
from channels_app.schedules import buttons, firing
from channels_app.webchat import adapter, html
from core.conversations import sessions
from core.database.queries import only
from core.lib.languages import spoken_in
from core.messages import MessageDict, fold
from core.models import ChatSession, Message, Run, RunEvent
from core.tools import languages, phrases

# By retrieval (message id), then by source.
Thumbs = dict[str, dict[str, str]]

PAGE_MESSAGES = 40
NOT_SHOWN = frozenset({"event", "action", "loading", "user_input"})


def page(*, session: ChatSession, before: int | None = None) -> dict[str, Any]:
    """Return the latest turns of a session, oldest first; ``before``: those before that message.

    ``earlier`` is the ``before`` of the next older page, None when there is none.
    """
    own = Message.objects.filter(only("session_id", session.pk))
    rows = own.select_related("run").order_by("session_id", "-id")
    if before is not None:
        rows = rows.filter(id__lt=before)
    found = list(rows[: PAGE_MESSAGES + 1])
    has_more = len(found) > PAGE_MESSAGES
    shown = found[:PAGE_MESSAGES][::-1]
    oldest = shown[0].id if shown else 0
    # A person may ask again before an answer: each answer is shown on the page of its question.
    asked = runs_in(shown, "user")
    without = runs_in(shown, "assistant") - asked
    if has_more and without:
        older = own.filter(run_id__in=without, role="user", id__lt=oldest)
        elsewhere = set(older.values_list("run_id", flat=True))
        shown = [row for row in shown if row.run_id not in elsewhere]
    unanswered = asked - runs_in(shown, "assistant")
    if before is not None and unanswered:
        newer = own.filter(run_id__in=unanswered, role="assistant", id__gte=before)
        shown += newer.select_related("run")
    for row in shown:
        row.session = session
    answered = [row.run for row in shown if row.role == "assistant" and row.run]
    thumbs = thumbs_on(answered, user_id=session.user_id)
    return {
        "turns": list(turns(shown, parts_of(answered), thumbs)),
        "earlier": oldest if has_more else None,
    }


def runs_in(rows: list[Message], role: str) -> set[int]:
    """Return the keys of the runs of which there is a message with this role."""
    return {row.run_id for row in rows if row.role == role and row.run_id}


def turns(
    rows: list[Message], parts: Mapping[int, list[dict[str, Any]]], thumbs: Mapping[int, Thumbs]
) -> Iterable[dict[str, Any]]:
    """Return the turns of question and answer of these rows, as JSON."""
    for lines in sessions.in_turns(rows):
        run_id = lines[0].run_id or 0
        said = [row for row in lines if row.role == "user"]
        answers = [row for row in lines if row.role == "assistant"]
        run = lines[0].run
        yield {
            "run_id": run.public_id if run else None,
            "state": run.state if run else Run.State.SUCCEEDED,
            "said": said_in(said) if said else None,
            "answer": {
                **answer_in(answers[-1], parts.get(run_id, [])),
                "thumbs": thumbs.get(run_id, {}),
            }
            if answers
            else None,
        }


def thumbs_on(runs: list[Run], *, user_id: int) -> dict[int, Thumbs]:
    """Return a user's ratings of the sources of these runs."""
    found: dict[int, Thumbs] = {}
    given = SourceFeedback.objects.filter(run__in=runs, user_id=user_id)
    for thumb in given:
        in_run = found.setdefault(thumb.run_id, {})
        in_run.setdefault(thumb.message_id, {})[thumb.source_id] = thumb.verdict
    return found


def said_in(rows: list[Message]) -> dict[str, Any]:
    """Return the user's message of one turn."""
    return {
        # The user's own text; document extracts were added for the model only.
        "text": "\n".join(row.shown for row in rows),
        "at": rows[0].created_at.isoformat(),
        "media": [item for row in rows for item in row.data.get("media", [])],
        # Not the person has said it, but their schedule.
        "is_scheduled": bool(rows[0].data.get("schedule")),
    }


def answer_in(row: Message, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a stored answer with its messages."""
    shown = [
        with_html(part, format=row.format) if part["type"] == "text" else part for part in parts
    ]
    if row.shown and not any(part["type"] == "text" for part in parts):
        whole = {"type": "text", "props": {"content": row.shown}, "message_id": "text"}
        shown.append(with_html(whole, format=row.format))
    return {
        "parts": shown,
        "text": row.shown,
        "language": spoken_in(row.shown),
        "format": row.format,
        "images": row.data.get("images", []),
        "files": row.data.get("files", []),
        "error": row.data.get("error", ""),
        "interrupted": bool(row.data.get("interrupted")),
        "from_agent": bool(row.data.get("result")),
        # Of a model that is not the usual one.
        "answered_by": row.data.get("answered_by", ""),
        "at": row.created_at.isoformat(),
        "reminder": reminder_in(row),
    }


def reminder_in(row: Message) -> dict[str, Any] | None:
    """Return a reminder's buttons (choice, label) and the result of a press; None for others."""
    if "reminder" not in row.data:
        return None
    language = row.session.user.language or languages.of_request(row.text)
    labels = [[key, phrases.in_language(word, language)] for key, word in buttons.LABELS.items()]
    return {"buttons": labels, "said": str(row.data.get("pressed", ""))}


def with_html(part: Mapping[str, Any], *, format: str) -> dict[str, Any]:  # noqa: A002
    """Return a text message with its rendering."""
    return {**part, "html": html.render_as(text=content_of(part), format=format)}


def parts_of(runs: list[Run]) -> dict[int, list[dict[str, Any]]]:
    """Return the merged messages of finished runs, by run, without those that are not shown."""
    logs: dict[int, list[MessageDict]] = {run.id: [] for run in runs}
    rows = RunEvent.objects.filter(run_id__in=logs).order_by("run_id", "seq")
    for run_id, data in rows.values_list("run_id", "data"):
        logs[run_id].append(orjson.loads(data))
    return {run_id: shown_parts(log) for run_id, log in logs.items()}


def shown_parts(events: list[MessageDict]) -> list[dict[str, Any]]:
    """Return the visible messages of a log, with ``failed`` on tool calls that did, and ``waits``
    on those that are made after a sign-in; retracted texts are left out.
    """
    merged = fold(events)
    ends = [data_of(each) for each in merged if is_failed_tool(each)]
    failed = {each.get("id") for each in ends}
    waits = {each.get("id") for each in ends if each.get("waits")}
    parts: list[dict[str, Any]] = [dict(part) for part in merged if part["type"] not in NOT_SHOWN]
    for part in parts:
        if part["type"] == "tool_call" and part["props"].get("id") in failed:
            part["failed"] = True
            if part["props"]["id"] in waits:
                part["waits"] = True
    return [part for part in parts if part["type"] not in {"text", "thinking"} or content_of(part)]


def is_failed_tool(event: Mapping[str, Any]) -> bool:
    """Return whether an event is the end of a tool call that failed."""
    is_end = event["type"] == "event" and event["props"].get("event") == "tool_end"
    return is_end and data_of(event).get("status") == "error"


def data_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the data of a lifecycle event."""
    return event["props"].get("data") or {}


def content_of(part: Mapping[str, Any]) -> str:
    """Return the content of a text or a thought."""
    return str(part["props"].get("content") or "")


def final(*, user_id: int, run_id: str, seq: int) -> dict[str, Any] | None:
    """Return the frame that follows the ``stream_end``; None for another user's run, or one with
    events after ``seq``: the final frame never overtakes them.

    ``html_of`` holds the rendering of each text message by its id.
    """
    run = Run.objects.filter(public_id=run_id, user_id=user_id).select_related("session").first()
    if run is None or run.state not in Run.FINAL or run.last_seq > seq:
        return None
    result = run.result
    given = Reply(
        ok=run.state == Run.State.SUCCEEDED,
        status=int(result.get("status", 200)),
        text=str(result.get("text", "")),
        format=str(result.get("format", "plain")),
        images=list(result.get("images", [])),
        error=str(result.get("error", "")),
        code=str(result.get("code", "")),
    )
    texts = [part for part in parts_of([run])[run.id] if part["type"] == "text"]
    is_scheduled = run.origin == firing.ORIGIN
    said = Message.objects.filter(run=run, role="assistant").select_related("session__user")
    message = said.last() if is_scheduled else None
    return {
        **adapter.final_frame(given, run_id=run_id, seq=seq),
        "session_id": run.session.public_id,
        "status": given.status,
        "files": result.get("files", []),
        "interrupted": run.state == Run.State.CANCELLED,
        "from_agent": run.origin == results.ORIGIN and not run.text,
        "answered_by": result.get("answered_by", ""),
        "language": spoken_in(given.text),
        "at": run.finished_at.isoformat() if run.finished_at else None,
        "reminder": reminder_in(message) if message is not None else None,
        "html_of": {
            part["message_id"]: html.render_as(text=content_of(part), format=given.format)
            for part in texts
            if "message_id" in part
        },
    }


def session_row(session: ChatSession, *, busy: bool) -> dict[str, Any]:
    """Return a line of the list of chats; the title is empty until a message gave one."""
    at = session.last_message_at or session.created_at
    found = {"id": session.public_id, "title": session.title}
    return {**found, "at": at.isoformat(), "busy": busy}
