"""Perform a turn of a claimed run: the agent loop, then the end of the run."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone

from allowlist import tool_rights
from channels_app.asgi.builtin_accounts import BUILTIN_CHANNELS, PROGRAMS
from channels_app.replies.streaming_edits import live_of
from channels_app.schedules import rights
from channels_app.worker import media
from channels_app.worker.claim_runs import Begun
from channels_app.worker.finish_run import STOPPED, Ending, priced_outcome, settle
from channels_app.worker.pictures import earlier_pictures, pictures_of
from core.agent import prompt
from core.agent.approvals import Approvals
from core.agent.calling import Call
from core.agent.loop import Turn
from core.conversations import usage
from core.conversations.events import LostLeaseError
from core.database.transactions import AWAY, in_thread, patiently
from core.lib import log_ids
from core.lib.leases import Lease
from core.media.describe import Describer
from core.messages import Message, Transcript
from core.models import Message as Line
from core.models import ModelCall, Run, ToolCall
from core.providers import registry as providers
from core.providers.base import LIMITS, ProviderError
from core.providers.catalogue import AssistantInfo, Catalogue, window_of
from core.providers.chain import Chain
from core.tools import languages, phrases, registry
from core.tools import rules as tool_rules
from core.tools.base import Tool, ToolContext
from core.tools.mcp import offered

logger = logging.getLogger(__name__)

SUBSTITUTE = "{0} answered, because the usual model is not available."


@dataclass(slots=True)
class Held:
    """A run that this worker has claimed. ``closing``: its end is being written."""

    run: Run
    task: asyncio.Task[None]
    lease: Lease
    cancelled: bool = False
    lost: bool = False
    closing: bool = False


async def take(begun: Begun, held: Held) -> None:
    """Run the model for a claimed run, and end the run unless another worker has claimed it."""
    run, log = begun.run, begun.log
    log_ids.begin(run=run.public_id, session=run.session.public_id)
    logger.info("a turn begins, attempt %d", run.attempt)
    transcript = Transcript()
    for event in begun.events:
        transcript.read(event)

    live = live_of(run, transcript, lease=begun.lease)

    def emit(message: Message) -> None:
        transcript.read(log.append(message))
        if live is not None:
            live.heard(message)

    meter = usage.RunMeter.of_run(run=run, known=begun.known)
    chain = Chain(
        models=begun.known.chain_of(run.assistant_id, first=run.model_id),
        provider_of=providers.provider_of,
        meter=meter,
    )
    describer = Describer(
        chain.models, begun.known.environment(), meter.of(ModelCall.Purpose.IMAGE), meter
    )
    turn = turn_of(begun, chain, emit)
    try:
        ending = await perform(run, turn, held, describer)
        held.closing = True
        await name_substitute(run, turn, chain)
        if live is not None:
            await live.finish()
    except LostLeaseError:
        logger.warning("run %s was taken over by another worker", run.id)
        await in_thread(usage.store, meter)
        return
    except asyncio.CancelledError:
        await in_thread(usage.store, meter)
        raise
    finally:
        if live is not None:
            live.abandon()
    log.hold()
    outcome = await patiently(partial(priced_outcome, run, transcript, ending, turn, meter))
    await settle(run, log, outcome, ending, meter, turn)


def turn_of(begun: Begun, chain: Chain, emit: Callable[[Message], None]) -> Turn:
    """Return the turn of a claimed run, which asks ``chain``."""
    run, assistant = begun.run, begun.known.of_run(begun.run.assistant_id)
    turn = Turn(
        messages=begun.prompt.messages,
        prompt=begun.prompt,
        is_first_cut=partial(patiently, partial(prompt.note_shortened, run)),
        provider=chain,
        emit=emit,
        context=ToolContext(
            run_id=run.id,
            user_id=run.user_id,
            session_id=run.session_id,
            tool_call_id="",
            time_zone=run.user.time_zone,
            emit=emit,
            request=run.text,
            context_tokens=window_of(chain.models),
            was_said={str(event.get("message_id")) for event in begun.events}.__contains__,
            schedule_grant=partial(rights.grant_of, run),
            is_listed=partial(is_listed, run),
        ),
        kept=begun.kept.messages,
        allowed=[call_of(each) for each in begun.kept.asked],
        resumed=[*begun.resumed, *map(call_of, begun.kept.made)],
        approvals=Approvals(
            run, partial(tool_rules.when_asked, begun.known, run), partial(is_listed, run)
        ),
        can_call=chain.can_call_tools,
        tools=tools_of(assistant, run, begun.known),
        client_tools=run.options.get("tools") or [],
        options=options_of(assistant, run),
        has_own_limit=bool(LIMITS & (run.options.get("model_options") or {}).keys()),
        is_read=not is_of_program(run),
    )
    chain.fitted = turn.fitted
    return turn


def is_listed(run: Run) -> bool:
    """Return whether who asked for a run is its person by a listed identity or a valid key."""
    is_group = rights.is_group(run.session)
    return tool_rights.is_listed(run, is_group=is_group, now=timezone.now())


def tools_of(assistant: AssistantInfo, run: Run, known: Catalogue) -> dict[str, Tool]:
    """Return the tools that a turn may use, by name. A scheduled one makes no schedules; a client
    that asks the models alone gets none of ours.
    """
    if run.options.get("model_only"):
        return {}
    found = {
        tool.name: tool
        for tool in registry.every()
        if assistant.tools is None or tool.name in assistant.tools
    }
    found |= offered.tools_for(run.user_id, assistant.id, is_limited=assistant.tools is not None)
    if run.options.get("schedule"):
        found.pop("schedule", None)
    return {
        name: tool
        for name, tool in found.items()
        if tool.is_usable(known) and tool_rules.is_offered(known, run, tool.name)
    }


def call_of(row: ToolCall) -> Call:
    """Return a stored call, for a turn that goes on with it."""
    return Call(id=row.call_id, name=row.tool, arguments=row.arguments)


def options_of(assistant: AssistantInfo, run: Run) -> dict[str, Any]:
    """Return the options of the model: the client's before the assistant's."""
    given: dict[str, Any] = run.options.get("model_options") or {}
    own: dict[str, Any] = {}
    is_persona = not run.options.get("model_only")
    if is_persona and assistant.temperature is not None and "temperature" not in given:
        own["temperature"] = assistant.temperature
    if assistant.max_output_tokens is not None:
        most = min([assistant.max_output_tokens, *(given[each] for each in LIMITS & given.keys())])
        own["max_tokens"] = most
        given = {name: value for name, value in given.items() if name not in LIMITS}
    return {**given, **own}


def is_of_program(run: Run) -> bool:
    """Return whether a program asks, which may want nothing but the model's words."""
    return run.session.account.channel == PROGRAMS or bool(run.options.get("model_only"))


async def perform(run: Run, turn: Turn, held: Held, describer: Describer) -> Ending:
    """Run a turn; return how it ended. Raises LostLeaseError for a lost run."""
    if run.cancel_requested_at is not None:
        return Ending(Run.State.CANCELLED, error=STOPPED)
    try:
        if run.options.get("continues") and not await patiently(partial(may_go_on, run)):
            return Ending(Run.State.CANCELLED, error=STOPPED)
        if run.attempt > settings.RUN_MAX_ATTEMPTS:
            raise ProviderError("This could not be finished; please ask again.", code="attempts")
        async with asyncio.timeout(settings.AGENT_RUN_SECONDS) as limit:
            turn.context = replace(turn.context, more_time=partial(put_off, limit))
            await look_into_media(run, turn, describer)
            await turn.run()
    except asyncio.CancelledError:
        if held.lost or not held.cancelled:
            raise
        asyncio.current_task().uncancel()  # type: ignore[union-attr]
        turn.output.end_message()
        return Ending(Run.State.CANCELLED, error=STOPPED)
    except ProviderError as error:
        return fail_turn(turn, error)
    except TimeoutError:
        return fail_turn(turn, ProviderError("The answer took too long.", code="too_long"))
    except LostLeaseError:
        raise
    except Exception:
        logger.exception("the agent failed")
        return fail_turn(
            turn, ProviderError("Something went wrong in the gateway.", code="internal")
        )
    return Ending(Run.State.SUCCEEDED, answered=turn.answered)


def may_go_on(run: Run) -> bool:
    """Return whether who asked for a run that goes on after a pause is still let in."""
    is_group = rights.is_group(run.session)
    return tool_rights.may_go_on(run, is_group=is_group, now=timezone.now())


def fail_turn(turn: Turn, error: ProviderError) -> Ending:
    """Write a failure to the event log; return it as the outcome."""
    if error.code == "budget":
        error = in_words_of(turn.context.request, error)
    turn.fail(error)
    return Ending(Run.State.FAILED, error=str(error), failure=error)


def in_words_of(request: str, error: ProviderError) -> ProviderError:
    """Return an error of a budget in the language of the request."""
    language = languages.of_request(request)
    lines = [phrases.in_language(line, language) for line in str(error).splitlines()]
    return ProviderError(" ".join(lines), code=error.code, retry_after=error.retry_after)


async def look_into_media(run: Run, turn: Turn, describer: Describer) -> None:
    """Turn media into text for the model; the user is told about files that could not be stored or
    opened.

    The run that one goes on with has done so, and said so; it has the messages.
    """
    goes_on = bool(run.options.get("continues"))
    said = run.text  # without the gateway's descriptions
    waited = not goes_on and media.is_waiting(run)
    made = await media.prepare(run, describer) if waited else {}
    pictures = await pictures_of(run, made)
    if waited or pictures:
        turn.begin_with(await patiently(partial(prompt.prepare, run, pictures)))
        turn.context = replace(turn.context, request=run.text)
    if turn.prompt is not None and turn.prompt.earlier and describer.is_needless:
        turn.prompt.pictures = await earlier_pictures(run, turn.prompt.earlier)
    if goes_on:
        return
    for line in media.refusals(run):
        turn.output.note(phrases.in_language(line, languages.of_request(said)))
    for line in (run.options.get("schedule") or {}).get("lines", ()):
        turn.output.note(line)


async def name_substitute(run: Run, turn: Turn, chain: Chain) -> None:
    """Tell the person, once, that another model than usual answers: the next answers of it in a row
    are only marked. The web chat shows the mark; programs get no sentence of ours in an answer.
    """
    substitute = chain.substitute
    if substitute is None:
        return
    turn.answered_by = substitute.label
    is_own = run.session.account.channel in BUILTIN_CHANNELS
    if is_own or is_of_program(run) or not turn.answered:
        return
    try:
        if await in_thread(was_substituted, run):
            return
    except AWAY:  # the answer is whole: the log waits for the database
        return
    line = SUBSTITUTE.format(substitute.label)
    turn.output.note(f"({phrases.in_language(line, languages.of_request(run.text))})")


def was_substituted(run: Run) -> bool:
    """Return whether the last answer of the conversation came from a substitute, too."""
    answers = Line.objects.filter(session_id=run.session_id, role="assistant", run__lt=run.id)
    data = answers.order_by("-id").values_list("data", flat=True).first()
    return bool(data and data.get("answered_by"))


def put_off(limit: asyncio.Timeout, seconds: float) -> None:
    """Postpone the deadline of a turn that waits for a long task, which has its own limit."""
    when = limit.when()
    if when is not None and not limit.expired():
        limit.reschedule(when + seconds)
