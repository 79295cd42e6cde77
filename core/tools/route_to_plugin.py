"""Hands long work to a plugin: presentations, summaries, and what others add."""

from collections.abc import Mapping
from typing import Any

import jsonschema

from core.plugins import registry
from core.plugins.base import Capability, Plugin
from core.tools import intents, languages, waiting
from core.tools.base import ToolContext, ToolError, ToolResult

GENERATING = "Generating your presentation…"
PRESENTATIONS = frozenset({"ppt-generation", "html-slides"})
SOURCES = {
    "topic": "What it is about, in a few words.",
    "text": "The text itself, when the user gave it.",
    "file": "The handle of a document (/files/…), when the user sent one.",
}


class RouteToPlugin:
    """One tool for all plugins; what they can do is in its description."""

    name = "route_to_plugin"

    @property
    def description(self) -> str:
        """What each plugin does, for the model."""
        lines = [
            f"- plugin_id {plugin.id}, capability_id {name}: {capability.description}"
            f" Parameters: {', '.join(properties_of(capability))}."
            for plugin in registry.every().values()
            for name, capability in plugin.capabilities.items()
        ]
        return (
            "Makes presentations, summaries of documents and other long work; the result is "
            "delivered to the user directly. Call it at once when such a thing is asked for. "
            "What the work is about is given in parameters by one of: "
            + " ".join(f"{name}: {text}" for name, text in SOURCES.items())
            + "\n"
            + "\n".join(lines)
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The schema; ids are an enumeration, so that a grammar can hold a model to them."""
        plugins = registry.every()
        capabilities = sorted({name for each in plugins.values() for name in each.capabilities})
        return {
            "type": "object",
            "properties": {
                "plugin_id": {"type": "string", "enum": list(plugins)},
                "capability_id": {"type": "string", "enum": capabilities},
                "parameters": {"type": "object"},
            },
            "required": ["plugin_id", "capability_id", "parameters"],
            "additionalProperties": False,
        }

    def progress(self, arguments: dict[str, Any]) -> str:
        """The line of [D2]: a presentation is generated, or the plugin's name ([D2])."""
        name = str(arguments.get("plugin_id", ""))
        plugin = registry.get(name)
        if plugin is None:
            return ""
        return GENERATING if name in PRESENTATIONS else f"Running {plugin.name}…"

    def infer(self, text: str) -> dict[str, Any] | None:
        """What is clearly asked for: by the plugin's own ``infer`` if it has one, else by ours."""
        for plugin in registry.every().values():
            own = getattr(plugin, "infer", None)
            wanted = own(text) if own is not None else intents.wanted(plugin.id, text)
            if wanted is not None:
                capability = wanted.pop("capability_id", next(iter(plugin.capabilities)))
                return {"plugin_id": plugin.id, "capability_id": capability, "parameters": wanted}
        return None

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Begin the job and wait for it. Raises ToolError when it cannot even begin."""
        plugin, capability = chosen(arguments)
        given = arguments.get("parameters") or {}
        if not isinstance(given, dict):
            raise ToolError("parameters must be an object.")
        parameters = known(given, plugin.capabilities[capability])
        parameters.setdefault("request", context.request)
        parameters.setdefault("language", languages.language_of(context.request))
        return await waiting.outcome(
            context=context,
            tool=self.name,
            parameters={
                "plugin_id": plugin.id,
                "capability_id": capability,
                "parameters": parameters,
            },
            line=self.progress(arguments),
        )


def chosen(arguments: Mapping[str, Any]) -> tuple[Plugin, str]:
    """The plugin and the id of its capability; the only one may be left out. Raises ToolError."""
    plugin = registry.get(str(arguments.get("plugin_id", "")))
    if plugin is None:
        raise ToolError(f"There is no such plugin. There are: {', '.join(registry.every())}.")
    name = str(arguments.get("capability_id") or "")
    if name not in plugin.capabilities:
        if name and len(plugin.capabilities) > 1:
            raise ToolError(f"{plugin.id} can do: {', '.join(plugin.capabilities)}.")
        name = next(iter(plugin.capabilities))
    return plugin, name


def properties_of(capability: Capability) -> list[str]:
    """The names of a capability's own parameters."""
    return list(capability.parameters.get("properties", {}))


def known(given: dict[str, Any], capability: Capability) -> dict[str, Any]:
    """The parameters that the capability has, and those that name its source; models add others.

    Raises ToolError when one has a wrong value.
    """
    names = {*properties_of(capability), *SOURCES}
    kept = {name: value for name, value in given.items() if name in names and value is not None}
    try:
        jsonschema.validate(
            {name: value for name, value in kept.items() if name in properties_of(capability)},
            {**capability.parameters, "required": []},
        )
    except jsonschema.ValidationError as error:
        raise ToolError(f"parameters: {error.json_path}: {error.message}"[:300]) from error
    return kept


TOOL = RouteToPlugin()
