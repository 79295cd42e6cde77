"""Pass long work to a plugin: presentations, summaries, and third parties' plugins."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jsonschema
import orjson

from core.lib.languages import detect, named
from core.plugins import registry
from core.plugins.base import Capability, Plugin
from core.plugins.slides import asked
from core.tools import intents, waiting
from core.tools.arguments import coerced, is_too_deep, problem, text_of
from core.tools.base import Tool, ToolContext, ToolError, ToolResult

logger = logging.getLogger(__name__)

GENERATING = "Generating your presentation…"
PRESENTATIONS = frozenset({"ppt-generation", "html-slides"})
OWN = ("plugin_id", "capability_id", "parameters")
# The names of a call's source, besides those of a capability's schema.
SOURCES = ("source", "topic", "text", "file", "files", "url")
ALIASES = {
    "slides": ("count", "slide_count", "num_slides", "number_of_slides", "n_slides", "pages"),
    "language": ("lang",),
    "title": ("name", "heading"),
}


class RouteToPlugin(Tool):
    """One tool for all plugins; the model sees each capability's own schema."""

    name = "route_to_plugin"

    @property
    def description(self) -> str:  # type: ignore[override]
        """Describe each plugin for the model."""
        lines = [
            f"- plugin_id {plugin.id}, capability_id {name}: {capability.description}"
            for plugin in registry.every().values()
            for name, capability in plugin.capabilities.items()
        ]
        return (
            "Makes presentations, summaries of documents and other long work; the result is "
            "delivered to the user directly. Call it at once when such a thing is asked for; never "
            "only say that you need some time. In parameters, source is what the work is about: "
            "name the topic of the conversation where the user only says “this”. Example: "
            '{"plugin_id": "ppt-generation", "capability_id": "create_from_source", "parameters": '
            '{"source": "Renewable energy in Norway", "slides": 8}}\n' + "\n".join(lines)
        )

    @property
    def parameters(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the schema; ids are an enumeration, so that a grammar can enforce them.

        ``anyOf`` inside, never at the top: the form that all providers accept.
        """
        plugins = registry.every()
        capabilities = sorted({name for each in plugins.values() for name in each.capabilities})
        schemas = branches(plugins.values())
        parameters = schemas[0] if len(schemas) == 1 else {"type": "object", "anyOf": schemas}
        return {
            "type": "object",
            "properties": {
                "plugin_id": {"type": "string", "enum": list(plugins)},
                "capability_id": {"type": "string", "enum": capabilities},
                "parameters": parameters,
            },
            "required": list(OWN),
            "additionalProperties": False,
        }

    def progress(self, arguments: dict[str, Any]) -> str:
        """Return the line of [D2]: a presentation is generated, or the plugin's name."""
        name = text_of(arguments.get("plugin_id"))
        plugin = registry.get(name)
        if plugin is None:
            return ""
        return GENERATING if name in PRESENTATIONS else f"Running {plugin.name}…"

    def infer(self, text: str) -> dict[str, Any] | None:
        """Return a clearly requested call."""
        for plugin in registry.every().values():
            wanted = inferred(plugin, text)
            if wanted is not None:
                capability = wanted.pop("capability_id", next(iter(plugin.capabilities)))
                return {"plugin_id": plugin.id, "capability_id": capability, "parameters": wanted}
        return None

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Start the job and wait for it. Raises ToolError when it cannot start."""
        if not arguments.get("plugin_id") and (wanted := self.infer(context.request)):
            arguments = {**arguments, "plugin_id": wanted["plugin_id"]}
        plugin, name = chosen(arguments)
        capability = plugin.capabilities[name]
        parameters = known(given(arguments), capability, plugin.id)
        if not any(parameters.get(each) for each in SOURCES):
            below = (inferred(plugin, context.request) or {}).get("text")  # a clear request
            parameters |= {"text": below} if below else {}
        parameters["language"] = language_of(parameters, context.request)
        parameters.setdefault("request", context.request)
        return await waiting.outcome(
            context=context,
            tool=self.name,
            parameters={"plugin_id": plugin.id, "capability_id": name, "parameters": parameters},
            line=self.progress({"plugin_id": plugin.id}),
        )


def inferred(plugin: Plugin, text: str) -> dict[str, Any] | None:
    """Return the parameters with which a text asks for a plugin, by its ``infer`` or by ours."""
    own = getattr(plugin, "infer", None)
    if own is None:
        return intents.wanted(plugin.id, text)
    try:
        wanted = own(text)
        return None if wanted is None else dict(wanted)
    except Exception:  # another package's: a turn must not fail by it
        logger.exception("the plugin %s cannot tell whether it is meant", plugin.id)
        return None


def branches(plugins: Iterable[Plugin]) -> list[dict[str, Any]]:
    """Return the schemas of all capabilities; equal ones once, under the names of all."""
    found: list[tuple[list[str], dict[str, Any]]] = []
    for plugin in plugins:
        for name, capability in plugin.capabilities.items():
            label, schema = f"{plugin.id} {name}", dict(capability.parameters)
            same = next((labels for labels, other in found if other == schema), None)
            if same is None:
                found.append(([label], schema))
            else:
                same.append(label)
    return [{"title": ", ".join(labels), **schema} for labels, schema in found]


def chosen(arguments: Mapping[str, Any]) -> tuple[Plugin, str]:
    """Return the plugin and its capability's id; a single one may be left out. Raises ToolError."""
    wanted = text_of(arguments.get("plugin_id"))
    plugin = registry.get(wanted)
    if plugin is None:
        what = f"There is no plugin “{wanted[:60]}”" if wanted else "plugin_id is missing"
        raise ToolError(f"{what}. plugin_id is one of: {', '.join(registry.every())}.")
    name = text_of(arguments.get("capability_id"))
    if name not in plugin.capabilities:
        if name and len(plugin.capabilities) > 1:
            can = ", ".join(plugin.capabilities)
            raise ToolError(f"capability_id of {plugin.id} is one of: {can}.")
        name = next(iter(plugin.capabilities))
    return plugin, name


def given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a call; models also put them beside ``parameters``, or write JSON
    text.

    Raises ToolError.
    """
    inner = arguments.get("parameters") or {}
    if isinstance(inner, str):
        try:
            inner = orjson.loads(inner)
        except orjson.JSONDecodeError:
            inner = {"source": inner}
    if not isinstance(inner, dict):
        raise ToolError("parameters must be an object.")
    beside = {name: value for name, value in arguments.items() if name not in OWN}
    if is_too_deep({**beside, **inner}):
        raise ToolError("parameters must not be nested so deeply.")
    return {**beside, **inner}


def known(found: dict[str, Any], capability: Capability, plugin_id: str) -> dict[str, Any]:
    """Return the capability's parameters and those of its source; models add others.

    Raises ToolError, naming the field, for a wrong or missing value, or when only unknown ones are
    given.
    """
    schema = capability.parameters
    own = list(schema.get("properties", {}))
    found = renamed(found, own)
    kept = {
        name: value
        for name, value in found.items()
        if name in {*own, *SOURCES} and value not in (None, "", [])
    }
    unknown = [name for name in found if name not in {*own, *SOURCES, "request", "input"}]
    if unknown and not kept:
        raise ToolError(
            f"parameters.{unknown[0][:60]} is not known. {plugin_id} takes: {', '.join(own)}."
        )
    values = {name: coerced(kept[name], schema["properties"][name]) for name in kept if name in own}
    needed = [name for name in schema.get("required", ()) if name not in SOURCES]
    validator = jsonschema.Draft202012Validator({**schema, "required": needed})
    if wrong := problem(validator, values, "parameters"):
        raise ToolError(wrong)
    return {**kept, **values}


def renamed(found: Mapping[str, Any], own: Sequence[str]) -> dict[str, Any]:
    """Rename parameters to the capability's names."""
    names = {
        other: name
        for name, others in ALIASES.items()
        if name in own and name not in found
        for other in others
        if other not in own
    }
    return {names.get(name, name): value for name, value in found.items()}


def language_of(parameters: Mapping[str, Any], request: str) -> str:
    """Return the result's language ("de", "zh-TW"): the call's, a named one, or the request's."""
    about = next((str(parameters[name]) for name in SOURCES[:2] if parameters.get(name)), "")
    found = (
        named(str(parameters.get("language") or ""))
        or asked.read(about).language
        or asked.read(request).language
        or detect(asked.lines_of(request))
    )
    return found.tag if found.tag == "zh-TW" else found.tag[:2]


TOOL = RouteToPlugin()
