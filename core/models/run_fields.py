"""The JSON of a run, key by key: ``Run.options`` and ``Run.route``. Where there is no value there
is no key. ``InboundMessage.options`` has the options of the run that the message becomes.
"""

from typing import Any, TypedDict


class ScheduleOptions(TypedDict, total=False):
    id: str  # public
    lines: list[str]  # for above the answer


class RunOptions(TypedDict, total=False):
    """The options of a run: from its client, from the gateway, and for the client's protocol."""

    # The client's tools, history, and options for the model, as in OpenAI's chat completions.
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    model_options: dict[str, Any]
    model_only: bool  # the model is asked alone: no instructions and no tools of the gateway
    may_shorten: bool  # the oldest of ``messages`` may be left out where the window is too small
    client_context: str  # for the instructions
    # A bridge's words, which its callback gets back; in runs of old versions, the client's context.
    context: str
    schedule: ScheduleOptions  # that the run carries out
    continues: int  # the paused run (primary key) with which this one goes on
    resumed_by_client: int  # the paused run, where the client of this one answered its question
    # For intake: the album that a picture belongs to, and the answer to a code of a denied sender.
    album: str
    said: str
    # For the adapters of the protocols.
    ui_message_id: str
    ui_continues: bool  # goes on in the message of the client that the paused run began
    ag_ui: dict[str, Any]
    response: dict[str, Any]


class Route(TypedDict, total=False):
    """The target of a run's answer, as it was when its batch was flushed ([C3])."""

    account: int  # primary key
    chat: str
    thread: str
    reply_to: str  # the platform's id of the last message; "" for none
    acks: list[str]  # the platform's ids of all messages
    # As the sender says: ``kind``, ``mime``, ``name``, ``size``, ``duration``. One of ``remote``
    # (the platform's handle), ``upload`` (a file's public id), ``url``. ``quoted``: whose message
    # has it; ``place``: where it stands in the client's ``messages``. Once looked at
    # (``channels_app.worker.media``): ``text``, ``file`` (public id), ``seen`` (its picture goes to
    # the model), ``refused`` (why it was not stored).
    media: list[dict[str, Any]]
    history_from: int  # that of the session then
    trace: str  # in hex; without it, it follows from the run's public id
    result_of: int  # the agent session (primary key) whose result the run shows elsewhere
