"""Failures of model calls: the servers' own error bodies, each with its code."""

import asyncio
import re
from datetime import UTC, datetime
from typing import Any

import aiohttp
import orjson
import pytest

from core.providers import failures
from core.providers.base import ProviderError
from core.providers.failures import KINDS, classify, wait_seconds

Case = tuple[str, int, dict[str, str], Any, str]


def openai(message: str, kind: str = "invalid_request_error", code: str | None = None) -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str) -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_01"}


def llama(code: int, message: str, kind: str, **more: int) -> Any:
    return {"error": {"code": code, "message": message, "type": kind, **more}}


def vllm(code: int, message: str, kind: str = "BadRequestError") -> Any:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


CASES: list[Case] = [
    # OpenAI
    (
        "openai key",
        401,
        {},
        openai("Incorrect API key provided: sk-abcd*efgh. You can find", code="invalid_api_key"),
        "unauthorised",
    ),
    (
        "openai rate",
        429,
        {"retry-after": "20"},
        openai(
            "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit "
            "30000, Used 29000, Requested 2000. Please try again in 2s. Visit "
            "https://platform.openai.com/account/billing to learn more.",
            "tokens",
            "rate_limit_exceeded",
        ),
        "rate_limited",
    ),
    (
        "openai quota",
        429,
        {},
        openai(
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
            "insufficient_quota",
        ),
        "quota",
    ),
    (
        "openai context",
        400,
        {},
        openai(
            "This model's maximum context length is 128000 tokens. However, your messages resulted "
            "in 150000 tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        "context_length",
    ),
    (
        "openai model",
        404,
        {},
        openai("The model `gpt-9` does not exist or you do not have access to it.",
               code="model_not_found"),
        "not_found",
    ),
    ("openai overloaded", 503, {}, openai("The engine is currently overloaded", "server_error"),
     "overloaded"),
    ("openai server", 500, {}, openai("The server had an error", "server_error"), "server"),
    ("openai value", 400, {}, openai("Invalid value: 'x'.", code="invalid_value"), "bad_request"),
    ("openai in a stream", 200, {}, openai("The server had an error", "server_error"), "server"),
    (
        "azure content",
        400,
        {},
        {
            "error": {
                "message": "The response was filtered due to the prompt triggering Azure OpenAI's "
                "content management policy.",
                "code": "content_filter",
                "status": 400,
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
        "content",
    ),
    # Anthropic
    ("anthropic key", 401, {}, anthropic("authentication_error", "invalid x-api-key"),
     "unauthorised"),
    ("anthropic overloaded", 529, {}, anthropic("overloaded_error", "Overloaded"), "overloaded"),
    ("anthropic overloaded in a stream", 200, {}, anthropic("overloaded_error", "Overloaded"),
     "overloaded"),
    (
        "anthropic credit",
        400,
        {},
        anthropic(
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans.",
        ),
        "quota",
    ),
    (
        "anthropic context",
        400,
        {},
        anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "context_length",
    ),
    ("anthropic rate", 429, {"retry-after": "5"},
     anthropic("rate_limit_error", "This request would exceed your rate limit"), "rate_limited"),
    ("anthropic size", 413, {}, anthropic("request_too_large", "Request exceeds the maximum size"),
     "too_large"),
    ("anthropic model", 404, {}, anthropic("not_found_error", "model: claude-9"), "not_found"),
    # vLLM
    (
        "vllm context",
        400,
        {},
        vllm(400, "This model's maximum context length is 4096 tokens. However, you requested 5000 "
             "tokens (4000 in the messages, 1000 in the completion)."),
        "context_length",
    ),
    ("vllm model", 404, {}, vllm(404, "The model `x` does not exist.", "NotFoundError"),
     "not_found"),
    ("vllm newer", 400, {}, {"error": vllm(400, "top_k must be -1 or at least 1, got -5.")},
     "bad_request"),
    ("vllm detail", 422, {}, {"detail": [{"loc": ["body"], "msg": "field required"}]},
     "unprocessable"),
    ("vllm key", 401, {}, {"error": "Unauthorized"}, "unauthorised"),
    # Ollama
    ("ollama model", 404, {},
     openai('model "llama9" not found, try pulling it first', "api_error"), "not_found"),
    ("ollama native model", 404, {}, {"error": "model 'x' not found"}, "not_found"),
    ("ollama context", 400, {}, openai("the input length exceeds the context length", "api_error"),
     "context_length"),
    ("ollama busy", 503, {}, {"error": "server busy, please try again. maximum pending requests "
                              "exceeded"}, "overloaded"),
    # llama.cpp
    ("llama loading", 503, {}, llama(503, "Loading model", "unavailable_error"), "overloaded"),
    (
        "llama context",
        400,
        {},
        llama(
            400,
            "the request exceeds the available context size, try increasing it",
            "exceed_context_size_error",
            n_prompt_tokens=9000,
            n_ctx=4096,
        ),
        "context_length",
    ),
    ("llama key", 401, {}, llama(401, "Invalid API Key", "authentication_error"), "unauthorised"),
    ("llama older context", 500, {},
     llama(500, "the request exceeds the available context size", "server_error"),
     "context_length"),
    # Google, OpenRouter, Groq, DeepSeek, Bedrock
    ("google key", 400, {},
     [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}],
     "unauthorised"),
    ("google quota", 429, {},
     [{"error": {"code": 429, "message": "You exceeded your current quota, please check your plan.",
                 "status": "RESOURCE_EXHAUSTED"}}], "quota"),
    ("google rate", 429, {},
     [{"error": {"code": 429, "message": "You exceeded your current quota. Please retry in 31.2s.",
                 "status": "RESOURCE_EXHAUSTED"}}], "rate_limited"),
    ("openrouter credits", 402, {}, {"error": {"message": "Insufficient credits", "code": 402}},
     "quota"),
    ("openrouter moderation", 403, {},
     {"error": {"message": "Your input was flagged", "code": 403}}, "content"),
    ("openrouter passes on", 400, {},
     {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw":
      '{"error":{"message":"This model\'s maximum context length is 8192 tokens."}}'}}},
     "context_length"),
    ("openrouter pictures", 404, {},
     {"error": {"message": "No endpoints found that support image input", "code": 404}},
     "bad_request"),
    ("llama.cpp pictures", 500, {},
     llama(500, "image input is not supported - hint: if this is unexpected, you may need to "
           "provide the mmproj", "server_error"), "bad_request"),
    ("groq call", 400, {},
     openai("Failed to call a function. Please adjust your prompt. See 'failed_generation' for "
            "more details.", code="tool_use_failed"), "bad_stream"),
    ("groq size", 413, {},
     openai("Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested "
            "8000", "tokens", "rate_limit_exceeded"), "too_large"),
    ("deepseek balance", 402, {}, openai("Insufficient Balance", "unknown_error"), "quota"),
    ("bedrock rate", 429, {},
     {"message": "Too many tokens, please wait before trying again."}, "rate_limited"),
    ("deepseek model", 400, {}, openai("Model Not Exist", code="invalid_request_error"),
     "not_found"),
    ("groq model", 400, {},
     openai("The model `x` has been decommissioned and is no longer supported.",
            code="model_decommissioned"), "not_found"),
    ("mistral model", 400, {},
     {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "param": None,
      "code": "1500"}, "not_found"),
    ("zhipu model", 400, {}, {"error": {"code": "1211", "message": "Unknown Model"}}, "not_found"),
    ("openrouter model", 400, {}, openai("x/y is not a valid model ID", code="400"), "not_found"),
    ("litellm model", 400, {},
     {"error": {"message": {"error": "/chat/completions: Invalid model name passed in model=x. "
                                     "Call `/v1/models` to view available models for your key."},
                "type": "None", "param": "None", "code": "400"}}, "not_found"),
    ("deepseek content", 400, {},
     openai("Content Exists Risk", code="invalid_request_error"), "content"),
    # xAI, Moonshot, Zhipu, DashScope, Fireworks, SiliconFlow, SGLang
    ("xai content", 403, {},
     {"code": "The caller does not have permission to execute the specified operation",
      "error": "Content violates usage guidelines. Team: t, API key ID: k, Model: grok-4, Failed "
               "check: SAFETY_CHECK_TYPE_BIO"}, "content"),
    ("xai permission", 403, {},
     {"code": "The caller does not have permission to execute the specified operation",
      "error": "Your team has no access to this model."}, "unauthorised"),
    ("xai context", 400, {},
     {"code": "Client specified an invalid argument", "error":
      "This model's maximum prompt length is 131072 but the request contains 136973 tokens."},
     "context_length"),
    ("xai newer context", 400, {},
     {"error": "Failed to start sampling: [input_too_large] Current message (1149677 tokens) "
               "exceeds budget (975424 tokens)"}, "context_length"),
    ("moonshot context", 400, {},
     openai("Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)"),
     "context_length"),
    ("moonshot content", 400, {},
     openai("The request was rejected because it was considered high risk", "content_filter"),
     "content"),
    ("moonshot quota", 429, {},
     openai("You exceeded your current token quota: 1 <o>, please check your account balance",
            "exceeded_current_quota_error"), "quota"),
    ("zhipu quota", 429, {}, {"error": {"code": "1113", "message":
     "\u4f59\u989d\u4e0d\u8db3\u6216\u65e0\u53ef\u7528\u8d44\u6e90\u5305"}}, "quota"),
    ("zhipu context", 400, {}, {"error": {"code": "1261", "message": "Prompt exceeds max length"}},
     "context_length"),
    ("zhipu content", 400, {}, {"error": {"code": "1301", "message": "Unsafe or sensitive."}},
     "content"),
    ("zhipu rate", 429, {}, {"error": {"code": "1302", "message": "High concurrency usage."}},
     "rate_limited"),
    ("dashscope quota", 400, {},
     openai("Access denied, please make sure your account is in good standing.", "Arrearage",
            "Arrearage"), "quota"),
    ("dashscope content", 400, {},
     openai("<400> InternalError.Algo.DataInspectionFailed: Input text data may contain "
            "inappropriate content.", "data_inspection_failed", "data_inspection_failed"),
     "content"),
    ("dashscope context", 400, {},
     openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
            code="invalid_parameter_error"), "context_length"),
    ("fireworks quota", 412, {},
     openai("Account a is suspended, possibly due to reaching the monthly spending limit or "
            "failure to pay past invoices.", "error", "PRECONDITION_FAILED"), "quota"),
    ("siliconflow quota", 403, {},
     {"code": 30011, "message": "Your paid balance is insufficient. Please top up.", "data": None},
     "quota"),
    ("sglang context", 400, {},
     vllm(400, "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."),
     "context_length"),
    ("anthropic context with the answer", 400, {},
     anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: "
               "178959 + 64000 > 200000, decrease input length or `max_tokens` and try again"),
     "context_length"),
    ("openai context in words", 400, {},
     openai("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
            "300000 tokens."), "context_length"),
    ("tgi context", 422, {},
     {"error": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
      "error_type": "validation"}, "context_length"),
    ("tgi context with the answer", 422, {},
     {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: "
               "9000 `inputs` tokens and 10 `max_new_tokens`"}, "context_length"),
    ("copilot context", 400, {},
     openai("token count exceeds the limit", code="model_max_prompt_tokens_exceeded"),
     "context_length"),
    ("a relay's quota", 403, {},
     openai("The user's quota is not enough", "new_api_error", "insufficient_user_quota"),
     "quota"),
    # Proxies and gateways in between
    ("nginx 502", 502, {}, b"<html><head><title>502 Bad Gateway</title></head></html>", "server"),
    ("nginx 413", 413, {}, b"<html><h1>413 Request Entity Too Large</h1></html>", "too_large"),
    ("a web site", 404, {}, b"<!DOCTYPE html><html><body>Page not found</body></html>",
     "no_model_server"),
    ("no route", 404, {}, {"detail": "Not Found"}, "not_found"),
    ("a redirect to a sign-in", 302, {}, b"", "no_model_server"),
    ("a plain error", 500, {}, b"Internal Server Error", "server"),
    ("cloudflare", 524, {}, b"<html>A timeout occurred</html>", "server"),
    ("nothing at all", 400, {}, b"", "bad_request"),
    ("text", 400, {}, {"error": "unexpected"}, "bad_request"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "headers", "body", "code"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_each_error_response_has_one_code(
    status: int, headers: dict[str, str], body: Any, code: str
) -> None:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    failure = classify(status=status, headers=headers, body=data)
    assert failure.code == code
    assert len(failure.reason) <= failures.REASON_CHARACTERS
    assert "sk-abcd" not in failure.reason
    assert "platform.openai.com" not in failure.reason


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError(), "timeout"),
        (failures.SilenceError(), "silence"),
        (failures.CutStreamError(), "cut"),
        (failures.BadStreamError("x"), "bad_stream"),
        (failures.NoStreamError("220 smtp"), "no_model_server"),
        (aiohttp.ServerDisconnectedError(), "unreachable"),
        (aiohttp.InvalidURL("x"), "setup"),
        (aiohttp.ClientPayloadError(), "cut"),
        (ConnectionResetError(), "bad_stream"),
        (asyncio.IncompleteReadError(b"", 1), "bad_stream"),
    ],
)
def test_each_connection_error_has_one_code(error: BaseException, code: str) -> None:
    assert classify(exception=error).code == code


def test_an_advice_that_names_a_setting_names_the_admin_too() -> None:
    """A model that was chosen in the browser has no setting: its owner looked for one in vain."""
    advice = [kind.owner for kind in KINDS.values() if re.search("GATEWAY_|LLM_", kind.owner)]
    assert advice
    assert all("admin" in each for each in advice), advice


def test_every_kind_has_words_for_all() -> None:
    """The user is told the problem, the owner the remedy; a client gets a status and a code."""
    for kind in KINDS.values():
        assert kind.person.endswith(".")
        assert kind.owner.endswith(".")
        assert kind.name
        assert 400 <= kind.status < 600
        assert "GATEWAY_" not in kind.person
        assert kind.waiting.endswith("Trying again…")
    assert KINDS["unauthorised"].status == 502  # the client's own key was right
    assert not KINDS["context_length"].is_reported


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after": "1796000000"}, None),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, None),
        ({"retry-after": "2678400"}, 2_678_400),
        ({"retry-after": f"Fri, 31 Dec {'9' * 30} 23:59:59 GMT"}, None),
        ({"retry-after": f"Fri, 31 Dec 2026 23:59:59 +{'9' * 20}"}, None),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
    ],
)
def test_a_server_says_how_long_to_wait_in_several_ways(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert wait_seconds(headers) == seconds


@pytest.mark.parametrize(
    ("reset", "words"),
    [
        (2 * 3600 * 1000 - 500, "in 2 h"),
        (-1000, "later"),
        (10**12, "later"),
        (None, "later"),
    ],
)
def test_openrouter_says_in_its_body_when_one_can_go_on(reset: int | None, words: str) -> None:
    """Its free models have a limit a day, without a header."""
    now = int(datetime.now(UTC).timestamp() * 1000)
    given = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset and str(now + reset)}
    error = {"message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000"}
    body = orjson.dumps({"error": {**error, "code": 429, "metadata": {"headers": given}}})
    failure = classify(status=429, body=body)
    assert failure.code == "rate_limited"
    assert words in failure.words
    assert classify(status=429, headers={"Retry-After": "3"}, body=body).asked_seconds == 3


def test_the_error_names_the_waiting_time() -> None:
    """The server's waiting time is kept unchanged: the agent decides whether it waits."""
    failure = classify(status=429, headers={"Retry-After": "3600"})
    assert failure.retry_after == 3600
    assert "in 60 min" in failure.words
    assert "in 3 s" in classify(status=429, headers={"Retry-After": "2.1"}).words
    assert "in 2 h" in classify(status=429, headers={"Retry-After": "7200"}).words
    error = ProviderError.of(classify(status=429))
    assert (error.code, error.retry_after) == ("rate_limited", failures.RATE_LIMIT_SECONDS)
    assert ProviderError.of(classify(status=402)).retry_after is None


def google_quota(*limits: str, delay: Any = "31.5s", metrics: int = 1) -> bytes:
    """Return Google's error for a used-up quota. ``limits``: the ids of those that are."""
    metric = "\n* Quota exceeded for metric: generativelanguage.googleapis.com/free_tier_requests"
    message = (
        "You exceeded your current quota, please check your plan and billing details."
        f"{metric * metrics}\nPlease retry in 31.5s."
    )
    details = [
        {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": each} for each in limits],
        },
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]
    error = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}
    return orjson.dumps([{"error": error}])


MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"


@pytest.mark.parametrize("metrics", [1, 9])
def test_google_says_in_the_body_how_long_to_wait(metrics: int) -> None:
    """In no header; of several quotas the sentence that says so is beyond the reason's end."""
    failure = classify(status=429, body=google_quota(MINUTE, metrics=metrics))
    assert (failure.code, failure.retry_after) == ("rate_limited", 31.5)
    assert "in 32 s" in failure.words
    headed = classify(status=429, headers={"Retry-After": "7"}, body=google_quota(MINUTE))
    assert headed.retry_after == 7


def test_a_quota_of_a_day_is_not_one_of_seconds() -> None:
    """Google says that a retry is possible in seconds there, too."""
    assert classify(status=429, body=google_quota(MINUTE, DAY)).code == "quota"


@pytest.mark.parametrize("delay", ["soon", "s", "-1s", "1e9s", None, 31, {"seconds": 31}])
def test_a_time_to_wait_that_is_none_is_left_out(delay: Any) -> None:
    failure = classify(status=429, body=google_quota(MINUTE, delay=delay))
    assert (failure.code, failure.asked_seconds) == ("rate_limited", None)


def test_a_reason_holds_no_credential_and_no_address() -> None:
    words = "Bearer abc.def-1 and sk-proj-12345678 at http://10.0.0.7:8000/v1 failed\nbadly"
    reason = classify(status=400, body=orjson.dumps({"error": words})).reason
    assert reason == "[key] and [key] at [address] failed badly"
    long = classify(status=500, body=b"x" * 10_000_000).reason
    assert len(long) == failures.REASON_CHARACTERS
