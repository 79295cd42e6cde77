"""Recover a tool call that the model should have made ([L3]). Pure; knows no tool by name.

Two cases: the model wrote the call as text (models without tool support do), or only announced the
work. In the second the tools themselves infer arguments from the user's text (``Tool.infer``);
nothing is called unless the request is clear.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from core.agent.calling import parsed
from core.tools.base import Tool

PROMISE_CHARACTERS = 400
CALL_CHARACTERS = 20_000
MOST_TRIED = 20  # places where a call may begin: each is parsed up to the end


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tool call to make in place of the model."""

    name: str
    arguments: dict[str, Any]


# Announcements such as "I am on it": by the model about itself, or to the waiting user.
PROMISES = re.compile(
    "|".join(
        (
            # English
            r"\bi(?:'|’)?(?:m| am) (?:now |currently |already )?(?:working|on it|creating|generating|making|"
            r"preparing|building|putting|summari[sz]ing|drafting|designing|going to)",
            r"\bi(?:'|’)?(?:ll| will| shall) (?:now |start |begin |get |go ahead |be |happily )*"
            r"(?:create|creat|generat|mak|prepar|build|work|summari[sz]|draft|design|put|right|get|do|start)",
            r"\b(?:working on (?:it|that|this|your)|one moment|just a (?:moment|second|minute)|hold on|hang on|"
            r"stand by|bear with me|please wait|let me (?:create|generate|make|prepare|build|work|summari[sz]e|"
            r"draft|get|put|start|do))\b",
            r"\b(?:this|it) (?:will|may|might|needs?|takes?|could) (?:take )?(?:a |some )?(?:few |little |bit )?"
            r"(?:of )?(?:time|moments?|minutes?|while|seconds?)",
            r"\b(?:creating|generating|preparing|summari[sz]ing) (?:your|the|a) ",
            # Chinese
            r"(?:正在|马上|这就|稍等|请稍|稍后|立刻|立即|我(?:来|会|将|现在)|需要(?:一些|一点|几)?(?:时间|分钟)|"
            r"開始|开始(?:生成|制作|处理|为您|为你))",
            # Spanish
            r"\b(?:estoy (?:trabajando|creando|generando|preparando|haciendo|elaborando|resumiendo|en ello)|"
            r"(?:voy a|vamos a|enseguida|ahora mismo|un momento|dame un|espera|por favor,? espere)|"
            r"(?:crear|generar|preparar|elaborar|resumir|har)é\b|trabajando en)",
            # German
            r"\b(?:ich (?:arbeite|erstelle|generiere|bereite|mache|fasse|kümmere|bin dabei|werde)|"
            r"(?:einen? (?:moment|augenblick)|moment bitte|bitte warten|wird (?:gerade )?(?:erstellt|vorbereitet)|"
            r"das (?:dauert|braucht)|dauert (?:einen|etwas)|bin dabei))\b",
            # French
            r"\b(?:je (?:travaille|crée|génère|prépare|vais|suis en train|m['’]en occupe|m['’]y mets|résume|"
            r"rédige)|un (?:instant|moment)|veuillez patienter|patientez|en cours (?:de|d))",
            # Japanese
            r"(?:作成(?:中|し(?:ます|ています|ております))|作り(?:ます|始め)|生成(?:中|し(?:ます|ています))|お待ち|"
            r"少々|ただいま|取り(?:掛|か)か|要約し(?:ます|ています)|準備し(?:ます|ています)|時間が(?:かか|必要))",
        )
    ),
    re.IGNORECASE,
)
FENCE = re.compile(r"```[a-zA-Z_]*+\s*+(.*?)```", re.DOTALL)
NO_ARGUMENTS = {"name", "tool", "function", "tool_name", "type", "id"}  # beside arguments
CODE = re.compile(r"(?<![\w.-])([\w.-]+)\(")
TAGGED = re.compile(r"<(tool_call|function_call|tool)>(.*?)(?:</\1>|$)", re.DOTALL)


def is_promise(text: str) -> bool:
    """Return whether a model's answer only announces work, and asks no question."""
    said = text.strip()
    if not said or len(said) > PROMISE_CHARACTERS or said.rstrip("*_ ").endswith(("?", "？")):
        return False
    return PROMISES.search(said) is not None


def inferred(tools: Iterable[Tool], request: str) -> Wanted | None:
    """Return the call that a request clearly asks for, by the first tool that infers one."""
    for tool in tools:
        arguments = tool.infer(request)
        if arguments is not None:
            return Wanted(tool.name, arguments)
    return None


def written_call(text: str, tools: Iterable[Tool]) -> Wanted | None:
    """Return the call that a model wrote as its answer; a word before or after it is ignored."""
    if len(text) > CALL_CHARACTERS:
        return None
    names = {tool.name for tool in tools}
    if not any(name in text for name in names):
        return None
    for piece in pieces(text):
        found = of_json(piece, names) or of_code(piece, names)
        if found is not None and is_json(found.arguments):
            return found
    return None


def is_json(value: dict[str, Any]) -> bool:
    """Return whether arguments can be written as JSON: no sets, bytes, huge or deep values."""
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True


def pieces(text: str) -> list[str]:
    """Return the places where a call may be: in tags, in a fence, between the outer brackets."""
    found = [match[2].strip() for match in TAGGED.finditer(text)]
    found += [match[1].strip() for match in FENCE.finditer(text)]
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        found.append(text[start : end + 1])
    return [*found, text.strip()]


def of_json(piece: str, names: set[str]) -> Wanted | None:
    """Parse ``{"name": …, "arguments": {…}}`` and its variants."""
    try:
        value = parsed(piece)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    value = inner if isinstance(inner, dict) else value
    name = value.get("name") or value.get("tool") or value.get("function") or value.get("tool_name")
    if not isinstance(name, str) or name not in names:
        return None
    return Wanted(name, arguments_of(value))


def arguments_of(value: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a written call, also as JSON in a string or beside the name."""
    for key in ("arguments", "parameters", "args", "input"):
        given = value.get(key)
        if isinstance(given, str):
            try:
                given = parsed(given)
            except (orjson.JSONDecodeError, orjson.JSONEncodeError):
                continue
        if isinstance(given, dict):
            return given
    return {key: each for key, each in value.items() if key not in NO_ARGUMENTS}


def of_code(piece: str, names: set[str]) -> Wanted | None:
    """Parse ``name(key="value", …)`` as Python without running it; only literals count."""
    named = (each for each in CODE.finditer(piece) if each[1] in names)
    for begin in islice(named, MOST_TRIED):
        code = piece[begin.end(1) : piece.rfind(")") + 1]
        try:
            call = ast.parse(f"tool{code}", mode="eval").body
            if isinstance(call, ast.Call) and not call.args:
                given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
                return Wanted(begin[1], {name: each for name, each in given.items() if name})
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            continue
    return None
