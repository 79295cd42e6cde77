"""OpenAPI operations of ``/v1/responses``, for ``channels_app/api/endpoint_operations.py``."""

from channels_app.api.operations import (
    IDEMPOTENCY,
    SESSION,
    Operations,
    content,
    of_openai,
    parameter,
)
from channels_app.api.shapes import (
    ANY,
    FLAG,
    INTEGER,
    STRING,
    Json,
    complete,
    listed,
    nullable,
    ref,
    shape,
    union,
)

RESPONSE_ID: Json = {**STRING, "pattern": "^resp_[A-Za-z0-9_-]{22}$"}
# Additions to a response, of which it has its reasoning alone.
INCLUDED: Json = {
    **STRING,
    "enum": [
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "message.input_image.image_url",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
    ],
}
UP_TO_100: Json = {**STRING, "pattern": "^0*(100|[0-9]{0,2})$", "maxLength": 15}  # MOST_ITEMS
SCHEMAS: dict[str, Json] = {
    "ResponseRequest": shape(
        ("model", "input"),
        model={**STRING, "minLength": 1},
        input=union({**STRING, "minLength": 1}, listed(ANY, minItems=1)),
        instructions=nullable(STRING),
        previous_response_id=nullable(STRING),
        stream=nullable(FLAG),
        background=nullable(FLAG),
        store=nullable(FLAG),
        tools=nullable(listed(ANY)),
        tool_choice=nullable(union(STRING, ANY)),
        temperature=nullable({"type": "number", "minimum": 0, "maximum": 2}),
        top_p=nullable({"type": "number", "minimum": 0, "maximum": 1}),
        max_output_tokens=nullable({"type": "integer", "minimum": 1}),
        text=nullable(ANY),
        reasoning=nullable(ANY),
        user=nullable({**STRING, "maxLength": 256}),
    ),
    "Response": shape(
        ("id", "object", "created_at", "status", "model", "output"),
        id=STRING,
        object=STRING,
        created_at=INTEGER,
        status=STRING,
        model=STRING,
        output=listed(ANY),
        usage=nullable(ANY),
        error=nullable(ANY),
        incomplete_details=nullable(ANY),
    ),
    "ResponseDeleted": complete(id=STRING, object=STRING, deleted=FLAG),
    "ResponseItems": complete(
        object=STRING, data=listed(ANY), first_id=STRING, last_id=STRING, has_more=FLAG
    ),
}


ONE = parameter("response", "path", schema=RESPONSE_ID)
COUNT: Json = {**STRING, "pattern": "^[0-9]{0,15}$"}
OPERATIONS: Operations = {
    ("/v1/responses", "post"): of_openai(
        "Create a response.",
        body=ref("ResponseRequest"),
        answers={"200": content(ref("Response"), stream=True)},
        errors=("404", "422", "502", "504"),
        parameters=(SESSION, IDEMPOTENCY),
    ),
    ("/v1/responses/{response}", "get"): of_openai(
        "Read a response, or stream its events after a number.",
        answers={"200": content(ref("Response"), stream=True)},
        errors=("404",),
        parameters=(
            ONE,
            parameter("include[]", "query", schema=listed(INCLUDED)),
            parameter("stream", "query"),
            parameter("starting_after", "query", schema=COUNT),
        ),
    ),
    ("/v1/responses/{response}", "delete"): of_openai(
        "Delete a response.",
        answers={"200": content(ref("ResponseDeleted"))},
        errors=("404",),
        parameters=(ONE,),
    ),
    ("/v1/responses/{response}/cancel", "post"): of_openai(
        "Cancel a response; its partial output is kept.",
        answers={"200": content(ref("Response"))},
        errors=("404", "408", "413"),
        parameters=(ONE,),
    ),
    ("/v1/responses/{response}/input_items", "get"): of_openai(
        "List the input of a response.",
        answers={"200": content(ref("ResponseItems"))},
        errors=("404",),
        parameters=(
            ONE,
            parameter("order", "query", schema={**STRING, "enum": ["asc", "desc"]}),
            parameter("after", "query"),
            parameter("limit", "query", schema=UP_TO_100),
        ),
    ),
}
