"""Responses that were stored: found by their id, shown, followed by the next one, deleted.

A response is a run; ``Run.options["response"]`` holds the part that the protocol keeps with it. The
conversation before it is kept as the messages of the run, as for chat completions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

import orjson
from django.conf import settings
from django.utils import timezone

from allowlist import permissions
from channels_app.asgi.chat_messages import MAX_MESSAGES, Json, keep_newest_pictures, refused
from channels_app.asgi.fields import conversation_id
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.client_api.acceptance import Work, facts_of
from channels_app.client_api.responses import reasoning, tools
from channels_app.client_api.responses.adapter import Config, ResponsesAdapter
from channels_app.client_api.responses.fields import REPEATED, Asked
from channels_app.client_api.responses.items import Reader, listed, references
from channels_app.client_api.responses.tools import Kinds
from channels_app.client_api.run_adapter import final_log
from channels_app.client_api.run_endpoint import whole_log
from channels_app.worker.pictures import pictures_of
from core.agent import prompt
from core.agent.calls import ids_of_calls
from core.conversations import events, runs
from core.database.transactions import atomic_write, in_thread
from core.lib.text import in_ascii
from core.messages import MessageDict
from core.models import InboundMessage, Run, RunOptions, User

PREFIX = "resp_"
ITEM = re.compile(r"(?:msg|rs|fc)_([A-Za-z0-9_-]{22})_[0-9]+", re.ASCII)
STATES: dict[str, str] = {Run.State.QUEUED: "queued", Run.State.RUNNING: "in_progress"}


def id_of(run: Run) -> str:
    """Return the id of the response that a run makes."""
    return f"{PREFIX}{run.public_id}"


def kept_of(asked: Asked, language: str) -> RunOptions:
    """Return what is kept with a run besides its messages, tools and options."""
    return {
        "may_shorten": asked.repeated.get("truncation") == "auto",
        "response": {
            "model": asked.model,
            "store": asked.store,
            "background": asked.background,
            "previous": asked.previous,
            "instructed": bool(asked.instructions),
            "repeated": asked.repeated,
            "kinds": asked.offered.kinds.of,
            "encrypts": asked.encrypts,
            "language": language,
        },
    }


def find(caller: Principal, response_id: str, *, sender: str = "", field: str = "") -> Run:
    """Return the run of a stored response of the caller's own. ``sender``: that a bridge names;
    then the response must be of that sender, and of the person who the sender is now.

    Raises RefusedError 404, also for another person's. May block on the database.
    """
    name = response_id.removeprefix(PREFIX)
    run = caller.own_run(name) if name != response_id else None
    if run is not None and caller.user is None and sender:
        run = run if is_of(run, caller, sender) else None
    if run is None or not run.options.get("response", {}).get("store"):
        text = "There is no response with this id."
        raise RefusedError(404, text, field=field or "response_id")
    return run


def is_of(run: Run, caller: Principal, sender: str) -> bool:
    """Return whether a run was made for a sender of a bridge, who is still the same person."""
    user = person_of(caller, sender)
    is_same_person = user is not None and user.pk == run.user_id
    return is_same_person and run.session.chat == conversation_id(sender)


def person_of(caller: Principal, sender: str) -> User | None:
    """Return the user of a request; None for an unknown sender of a bridge."""
    if caller.user is not None or caller.account is None:
        return caller.user
    named = permissions.Sender(caller.account, caller.account.sender_kind, sender)
    return permissions.decide(sender=named, now=timezone.now()).user


def check_reasoning(caller: Principal, asked: Asked) -> None:
    """Check the reasoning of ours that a client sends back; it goes no further, since chat
    completions have no field for it. An unknown sender is refused later. Raises NotVerifiedError.
    """
    person = person_of(caller, asked.user)
    if person is None:
        return
    for sealed, where in reasoning.kept_in(asked.given):
        reasoning.decrypt(sealed, where, person=person.pk)


def work_of(run: Run) -> Work:
    """Return a stored response as work; it goes on when the client leaves."""
    language = run.user.language or run.options["response"]["language"]
    return Work(run=run, language=language, session=run.session.public_id)


def config_of(work: Work) -> Config:
    run = work.run
    kept = run.options["response"]
    return Config(
        **facts_of(work),
        model=kept["model"],
        response=response_of(run),
        kinds=kinds_of(run),
        encrypt=partial(reasoning.encrypt, person=run.user_id) if kept.get("encrypts") else None,
    )


def kinds_of(run: Run) -> Kinds:
    """Return what the client's tools are to it."""
    return Kinds(run.options["response"]["kinds"])


def response_of(run: Run) -> Json:
    """Return a response that has no output yet."""
    kept = run.options["response"]
    messages = run.options.get("messages") or []
    return {
        **REPEATED,
        **kept["repeated"],
        "tools": tools.shown(run.options.get("tools") or [], kinds_of(run)),
        "id": id_of(run),
        "object": "response",
        "created_at": int(run.created_at.timestamp()),
        "completed_at": None,
        "status": STATES.get(run.state, "in_progress"),
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
        "model": kept["model"],
        "background": kept["background"],
        "store": kept["store"],
        "instructions": messages[0]["content"] if kept["instructed"] else None,
        "previous_response_id": kept["previous"] or None,
    }


def ended(work: Work, log: Iterable[MessageDict]) -> ResponsesAdapter:
    """Return the adapter of a finished run after all its events, with the whole ``response``."""
    settled, _ = final_log(log)
    adapter = ResponsesAdapter(config_of(work))
    for event in settled:
        adapter.feed(event)
    adapter.close()
    return adapter


async def current(work: Work) -> Json:
    if work.run.state not in Run.FINAL:
        return response_of(work.run)
    log = await whole_log(work)
    return (await in_thread(ended, work, log)).response


async def compose(caller: Principal, asked: Asked) -> tuple[list[Json], str]:
    """Return the messages of a request with those before it, and the name of its session; empty
    for none. Raises RefusedError 400, 404 and 413.
    """
    before, reader = None, Reader(kinds=asked.offered.kinds)
    if references(asked.given):
        reader.known = await in_thread(known_items, caller, asked)
    if asked.previous:
        field = "previous_response_id"
        before = await in_thread(find, caller, asked.previous, sender=asked.user, field=field)
        pictures = await pictures_of(before, {})
        reader.messages = await in_thread(conversation, before, pictures)
        reader.called = ids_of_calls(reader.messages)
    known = len(reader.messages)
    reader.read(asked.given)
    if any(reasoning.kept_in(asked.given)):
        await in_thread(check_reasoning, caller, asked)
    check(reader.messages, known)
    if asked.instructions:
        reader.messages.insert(0, {"role": "system", "content": asked.instructions})
    return reader.messages, session_name(caller, before)


def check(messages: list[Json], known: int) -> None:
    """Check the messages of a request, the first ``known`` of which are those of earlier responses:
    something new, a result for each call, no more new pictures than the gateway takes (earlier ones
    are left out), and no more messages and bytes in total than one request may have.
    """
    if len(messages) > MAX_MESSAGES:
        text = f"with what was said before it holds more than {MAX_MESSAGES} messages"
        raise refused(text, "input", status=413)
    answered = {each["tool_call_id"] for each in messages if each["role"] == "tool"}
    if missing := ids_of_calls(messages) - answered:
        call_id = in_ascii(min(missing)[:64])
        raise refused(f"has no output for the call {call_id!r}", "input")
    if len(messages) == known or not any(each["content"] for each in messages):
        raise refused("must not be empty", "input")
    keep_newest_pictures(messages, "input", known=known)
    if sum(len(orjson.dumps(each)) for each in messages) > settings.MAX_BODY_BYTES:
        raise refused("is too large with what was said before it", "input", status=413)


def conversation(run: Run, pictures: Mapping[str, str]) -> list[Json]:
    """Return the conversation up to the end of a stored response, without the instructions of its
    own. ``pictures``: of its uploaded files. Raises RefusedError 400 while it has not ended.
    """
    if run.state not in Run.FINAL:
        raise refused("has not ended", "previous_response_id")
    messages = prompt.with_documents(run.options.get("messages") or [], run, pictures)
    said = messages[1:] if run.options["response"]["instructed"] else messages
    reader = Reader(messages=[*said], kinds=kinds_of(run))
    reader.read(output_of(run))
    return reader.messages


def output_of(run: Run) -> list[Json]:
    """Return the items of a response that has ended, pictures as links."""
    log = [each for _, each in events.whole_log(run.id)]
    found: list[Json] = ended(work_of(run), log).response["output"]
    return found


def known_items(caller: Principal, asked: Asked) -> dict[str, Json]:
    """Return the items of earlier responses that a request refers to, by id: each response is read
    once. Raises RefusedError 404, and 413 for more than a request could hold itself.
    """
    wanted: dict[str, dict[str, int]] = {}
    for name in references(asked.given):
        if match := ITEM.fullmatch(name):
            times = wanted.setdefault(match[1], {})
            times[name] = times.get(name, 0) + 1
    found: dict[str, Json] = {}
    size = 0
    for public_id, times in wanted.items():
        run = find(caller, f"{PREFIX}{public_id}", sender=asked.user, field="input")
        for item in output_of(run):
            if item["id"] in times:
                size += len(orjson.dumps(item)) * times[item["id"]]
                found[item["id"]] = item
        if size > settings.MAX_BODY_BYTES:
            raise refused("refers to items that are too large in total", "input", status=413)
    return found


def session_name(caller: Principal, before: Run | None) -> str:
    """Return the session of an earlier response, as :func:`acceptance.accept` takes it."""
    if before is None:
        return ""
    if caller.user is not None:
        return before.session.public_id
    return before.session.thread.removeprefix("=")


def given_items(run: Run) -> list[Json]:
    """Return the input of a stored response as items, those of earlier responses first."""
    kept, messages = run.options["response"], run.options.get("messages") or []
    return listed(messages[1:] if kept["instructed"] else messages, run.public_id, kinds_of(run))


def delete(run: Run) -> None:
    """Forget a stored response: it is not found any more, and its input is removed from the run and
    from the inbox. The answer stays in the transcript of its session.

    One that has not ended is asked to end: no worker begins its turn any more, and one that is in
    it has read the input.
    """
    with atomic_write():
        runs.request_cancel(run=run)
        row = Run.objects.select_for_update().get(pk=run.pk)
        row.options["response"] |= {"store": False, "instructed": False}
        row.options.pop("messages", None)
        row.save(update_fields=["options"])
        InboundMessage.objects.filter(run=row).update(options={})
