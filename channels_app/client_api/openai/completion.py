"""A run as one `chat.completion`, built from the streamed chunks of its final messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from channels_app.client_api.openai.adapter import Config, Json, OpenAIAdapter, usage_of
from channels_app.client_api.run_adapter import DONE, Failure, whole_run


def completion(events: Iterable[Mapping[str, object]], config: Config) -> Json | Failure:
    """Return the completion of the whole run, or why it failed.

    Abandoned attempts leave no trace: only the final messages are included.
    """
    adapter = OpenAIAdapter(config)
    frames, end = whole_run(events, adapter)
    message: Json = {"role": "assistant", "content": None, "refusal": None}
    finish_reason = "stop"
    if adapter.failure is not None:
        return adapter.failure
    for frame in frames:
        if frame == DONE or "error" in frame:
            break
        for choice in frame["choices"]:
            _add(message, choice["delta"])
            finish_reason = choice["finish_reason"] or finish_reason
    if "tool_calls" not in message:  # OpenAI has no answer without both
        message["content"] = message["content"] or ""
    return {
        "id": config.completion_id,
        "object": "chat.completion",
        "created": config.created,
        "model": config.model,
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        ],
        "usage": usage_of(end),
    }


def _add(message: Json, delta: Json) -> None:
    """Merge one delta into a message, as clients do."""
    if piece := delta.get("content"):
        message["content"] = (message["content"] or "") + piece
    if piece := delta.get("reasoning_content"):
        message["reasoning_content"] = message.get("reasoning_content", "") + piece
    for call in delta.get("tool_calls", []):
        whole = call.copy()
        whole.pop("index", None)  # only streams have it
        message.setdefault("tool_calls", []).append(whole)
    if annotations := delta.get("annotations"):
        message["annotations"] = annotations
