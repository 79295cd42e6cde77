"""The props of the 12 built-in message types, field for field as requirement 2 lists them.

They are plain dicts at run time (`TypedDict`), so that reading and writing the event log copies
nothing. A delta carries only the part it changes: readers use `.get()`, never `[...]`.

The checks of `checks.py` are made from these declarations, so they are not postponed
(`from __future__ import annotations` would hide from `__required_keys__` what is optional).
"""

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict

Role = Literal["user", "system", "developer"]
SourceType = Literal["kb", "web", "file", "api", "mcp"]
ImageDetail = Literal["auto", "low", "high"]


class ContentPart(TypedDict, total=False):
    """One part of a multimodal user input, in OpenAI's shape (`type` says which field counts)."""

    type: str
    text: str
    image_url: Mapping[str, object]
    input_audio: Mapping[str, object]
    file: Mapping[str, object]


class UserInputProps(TypedDict):
    """The user's input; shown by frontends, never sent back to the client that sent it."""

    content: str | list[ContentPart]
    role: NotRequired[Role]
    name: NotRequired[str]


class TextProps(TypedDict):
    """An answer, or part of it; Markdown."""

    content: str


class ThinkingProps(TypedDict):
    """Reasoning of the model."""

    content: str


class LoadingProps(TypedDict):
    """A progress line for the user."""

    message: str


class ToolCallProps(TypedDict):
    """A tool the model calls; `arguments` is a JSON text."""

    id: str
    name: str
    arguments: NotRequired[str]


class RetrievalSource(TypedDict):
    """One source. `id` is unique within its retrieval; the last six fields belong to one
    source type each (file, api, mcp)."""

    id: str
    type: SourceType
    content: str
    title: NotRequired[str]
    score: NotRequired[float]
    url: NotRequired[str]
    collection_id: NotRequired[str]
    document_id: NotRequired[str]
    chunk_id: NotRequired[str]
    metadata: NotRequired[Mapping[str, object]]
    file_id: NotRequired[str]
    file_path: NotRequired[str]
    api_name: NotRequired[str]
    endpoint: NotRequired[str]
    server: NotRequired[str]
    tool: NotRequired[str]


class RetrievalProps(TypedDict):
    """The results of a search; `query_time_ms` in milliseconds."""

    query: str
    sources: list[RetrievalSource]
    total_results: NotRequired[int]
    query_time_ms: NotRequired[int]
    provider: NotRequired[str]


class ErrorProps(TypedDict):
    """An error in words for the user; `details` are for the owner."""

    message: str
    code: NotRequired[str]
    details: NotRequired[str]


class ImageProps(TypedDict):
    """An image; `url` is an address or a data URL, sizes are pixels."""

    url: str
    alt: NotRequired[str]
    width: NotRequired[int]
    height: NotRequired[int]
    detail: NotRequired[ImageDetail]


class AudioProps(TypedDict):
    """Sound; `duration` in seconds."""

    url: str
    format: NotRequired[str]
    duration: NotRequired[float]
    transcript: NotRequired[str]
    autoplay: NotRequired[bool]
    controls: NotRequired[bool]


class VideoProps(TypedDict):
    """A film; `duration` in seconds, sizes in pixels, `thumbnail` an address."""

    url: str
    format: NotRequired[str]
    duration: NotRequired[float]
    thumbnail: NotRequired[str]
    width: NotRequired[int]
    height: NotRequired[int]
    autoplay: NotRequired[bool]
    controls: NotRequired[bool]
    loop: NotRequired[bool]


class ActionProps(TypedDict):
    """A command to the frontend; never shown."""

    name: str
    payload: NotRequired[Mapping[str, object]]


class EventProps(TypedDict):
    """A lifecycle event of a stream; never shown."""

    event: str
    message: NotRequired[str]
    data: NotRequired[Mapping[str, object]]
