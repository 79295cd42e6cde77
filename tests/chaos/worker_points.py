"""Where a run can die."""

# Name -> (module, attribute path, before or after the call).
POINTS: dict[str, tuple[str, str, str]] = {
    "after accept": ("channels_app.worker.runner", "Runner._spawn", "before"),
    "after flush": ("channels_app.worker.runner", "flush", "after"),
    "after claim": ("core.conversations.runs", "claim", "after"),
    "before the first token": ("core.providers.scripted", "Scripted.stream", "before"),
    "between tokens": ("core.agent.output", "Output.say", "after"),
    "before finish": ("core.conversations.runs", "settle", "after"),
    "before delivery": ("core.conversations.outbox", "claim", "after"),
    "between send and record": ("core.conversations.outbox", "sent", "before"),
}
