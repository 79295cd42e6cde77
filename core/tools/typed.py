"""A tool as one class with types: its schema is made from the hints of ``call``. Pure.

    class Weather(TypedTool):
        '''Tells the weather in a city for the next days.'''       the description for the model

        line = "Looking at the weather…"                           shown to the person meanwhile

        async def call(
            self,
            context: ToolContext,
            city: Annotated[str, Field("In any language.")],
            days: Annotated[int, Field("Today is 1.", ge=1, le=7)] = 1,
        ) -> str: ...

    TOOL = Weather()                                               its name is ``weather``

Types that a model can be told: ``str``, ``int``, ``float``, ``bool``, ``Literal``, ``list[…]``,
``dict[str, …]``, a ``TypedDict``, and ``… | None`` for what may be left out (decision 197).
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import jsonschema

from core.tools.arguments import all_coerced, problem
from core.tools.base import Tool, ToolContext, ToolError, ToolResult

SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean"}
OF_NUMBERS = {"ge": "minimum", "le": "maximum"}
LIMITS = {
    "integer": OF_NUMBERS,
    "number": OF_NUMBERS,
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
}
MOST_DEPTH = 6
TYPES = "str, int, float, bool, Literal, list[…], dict[str, …], a TypedDict, or one of them | None"


@dataclass(frozen=True, slots=True)
class Field:
    """The description of a parameter for the model, and limits as pydantic names them.

    ``ge`` and ``le`` limit a number; ``min_length`` and ``max_length`` a text or a list.
    """

    description: str = ""
    _: KW_ONLY
    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None


class TypedTool(Tool):
    """A tool whose ``call`` has one parameter for each argument, after the context.

    ``name`` is the class's name in snake_case, ``description`` its docstring, unless they are set.
    ``line`` is shown to the person while it runs. A parameter whose name is a word of Python ends
    with an underscore, which the model does not see. ``translations`` has, of a tool in a package
    of its own, the sentences that a person sees: ``{"Done.": {"de": "Erledigt."}}``.

    Making the class raises TypeError for a type that a model cannot be told.
    """

    name = ""
    description = ""
    parameters: dict[str, Any] = {}
    line: ClassVar[str] = ""
    translations: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    _validator: ClassVar[jsonschema.protocols.Validator]
    _names: ClassVar[dict[str, str]] = {}  # of an argument -> of its parameter
    if TYPE_CHECKING:
        # Any parameters: those of a tool are its own.
        call: Callable[..., Awaitable[ToolResult | str]]

    def __init_subclass__(cls, **options: Any) -> None:
        """Make name, description and schema. Raises TypeError, naming the parameter."""
        super().__init_subclass__(**options)
        if "call" not in vars(cls):
            return
        cls.name = vars(cls).get("name") or snake_case(cls.__name__)
        cls.description = vars(cls).get("description") or paragraphs(vars(cls).get("__doc__") or "")
        if not cls.description:
            raise TypeError(f"{cls.__name__} needs a docstring: the description for the model.")
        cls.parameters = schema_of_call(cls)
        names = [*inspect.signature(vars(cls)["call"]).parameters][2:]
        cls._names = {name.removesuffix("_"): name for name in names}
        cls._validator = jsonschema.Draft202012Validator(cls.parameters)

    def progress(self, arguments: dict[str, Any]) -> str:
        return self.line

    def checked(self, arguments: Any) -> dict[str, Any]:
        """Return the arguments of a call, by the names of the schema; numbers that came as texts
        are numbers. Raises ToolError, which says in a line what is wrong.
        """
        values = all_coerced(arguments, self.parameters)
        if wrong := problem(self._validator, values):
            raise ToolError(wrong.replace("The value must", "The arguments must", 1))
        return dict(values)

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Return the result of ``call``; a text alone is for the model. Raises ToolError."""
        values = self.checked(arguments)
        given = {self._names[name]: value for name, value in values.items()}
        result = await self.call(context, **given)
        return ToolResult(result) if isinstance(result, str) else result


def snake_case(name: str) -> str:
    """Return ``CurrentTime`` as ``current_time``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def paragraphs(docstring: str) -> str:
    """Return a docstring with each paragraph on one line."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(docstring))
    return "\n".join(" ".join(block.split()) for block in blocks).strip()


def schema_of_call(cls: type[TypedTool]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments. Raises TypeError, naming the parameter."""
    call = vars(cls)["call"]
    if not inspect.iscoroutinefunction(call):
        raise TypeError(f"{cls.__name__}.call has to be an async method.")
    hints = get_type_hints(call, include_extras=True)
    _self, *rest = inspect.signature(call).parameters.values()
    if not rest or rest[0].name != "context":
        raise TypeError(f"The first parameter of {cls.__name__}.call is context: ToolContext.")
    properties, required = {}, []
    for each in rest[1:]:
        where = f"{cls.__name__}.call: {each.name}"
        if each.kind not in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}:
            raise TypeError(f"{where} has to be a named parameter.")
        if each.name not in hints:
            raise TypeError(f"{where} has no type.")
        name = each.name.removesuffix("_")
        if name in properties:
            raise TypeError(f"{where} has the name of another parameter.")
        properties[name] = schema_of(hints[each.name], where=where)
        if each.default is each.empty:
            required.append(name)
    return object_of(properties, required)


def object_of(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """Return the schema of an object with these properties and no other."""
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = required
    return {**found, "additionalProperties": False}


def schema_of(hint: Any, *, where: str, depth: int = 0) -> dict[str, Any]:
    """Return the JSON schema of a type. Raises TypeError, naming ``where`` it is."""
    origin, inner = get_origin(hint), get_args(hint)
    if depth > MOST_DEPTH:
        raise TypeError(f"{where} is nested more than {MOST_DEPTH} levels deep.")
    if hint in SIMPLE:
        return {"type": SIMPLE[hint]}
    if origin in {NotRequired, Required}:
        return schema_of(inner[0], where=where, depth=depth)
    if origin is Annotated:
        found = schema_of(inner[0], where=where, depth=depth)
        return found | of_fields(inner[1:], found, where=where)
    if origin in {Union, UnionType} and len(inner) == 2 and NoneType in inner:
        (other,) = (each for each in inner if each is not NoneType)
        return schema_of(other, where=where, depth=depth)
    if origin is Literal and {type(value) for value in inner} in ({str}, {int}):
        return {"type": SIMPLE[type(inner[0])], "enum": list(inner)}
    if is_typeddict(hint):
        return schema_of_dict(hint, where=where, depth=depth)
    if origin in {list, dict}:
        return schema_of_many(hint, where=where, depth=depth)
    raise TypeError(f"{where}: {hint!r} is no type that a model can be told. Use {TYPES}.")


def schema_of_many(hint: Any, *, where: str, depth: int) -> dict[str, Any]:
    """Return the JSON schema of a list, or of an object with any keys. Raises TypeError."""
    *keys, each = get_args(hint)
    if keys and keys != [str]:
        raise TypeError(f"{where}: keys of {hint!r} have to be str.")
    if keys and each is Any:
        return {"type": "object"}
    values = schema_of(each, where=where, depth=depth + 1)
    if keys:
        return {"type": "object", "additionalProperties": values}
    return {"type": "array", "items": values}


def schema_of_dict(hint: Any, *, where: str, depth: int) -> dict[str, Any]:
    """Return the JSON schema of a ``TypedDict``. Raises TypeError, naming the key."""
    properties = {
        name: schema_of(each, where=f"{where}.{name}", depth=depth + 1)
        for name, each in get_type_hints(hint, include_extras=True).items()
    }
    return object_of(properties, [name for name in properties if name in hint.__required_keys__])


def of_fields(told: Sequence[Any], schema: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Return what a ``Field`` adds to a schema. Raises TypeError for a limit of another type."""
    if len(told) != 1 or not isinstance(told[0], Field):
        raise TypeError(f"{where}: write one Field(…) of core.tools.typed in Annotated.")
    field = told[0]
    given = {
        name: value
        for name in ("ge", "le", "min_length", "max_length")
        if (value := getattr(field, name)) is not None
    }
    kind = schema.get("type")
    names = LIMITS.get(str(kind), {})
    if wrong := next((name for name in given if name not in names), ""):
        raise TypeError(f"{where}: {wrong} is no limit of a value of the type {kind}.")
    limits = {names[name]: value for name, value in given.items()}
    return {**({"description": field.description} if field.description else {}), **limits}
