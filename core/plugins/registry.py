"""Plugins by id: built-in ones by dotted path, others by the entry point ``latchkey.plugins``."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutinefunction
from pkgutil import resolve_name

import jsonschema

from core.lib.text import one_line
from core.plugins.base import Capability, Plugin

logger = logging.getLogger(__name__)

GROUP = "latchkey.plugins"
PLUGINS = {
    "ppt-generation": "core.plugins.ppt_generation.PLUGIN",
    "html-slides": "core.plugins.html_slides.PLUGIN",
    "summarize": "core.plugins.summarize.PLUGIN",
}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST_ERROR = 300


@dataclass(frozen=True, slots=True)
class Installed:
    """The plugins of other packages by id, and by entry point the error of each broken one."""

    plugins: dict[str, Plugin] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


class BrokenPluginError(Exception):
    """Why an object of another package is no plugin; the text is for the owner."""


@cache
def every() -> dict[str, Plugin]:
    """Return all plugins by id, the gateway's first; loaded on first use."""
    own: dict[str, Plugin] = {name: resolve_name(path) for name, path in PLUGINS.items()}
    return {**own, **installed().plugins}


def get(plugin_id: str) -> Plugin | None:
    return every().get(plugin_id)


@cache
def installed() -> Installed:
    """Return the plugins of other packages. The others work without one that cannot be loaded: its
    error is logged, and shown to the owner by the doctor.
    """
    found = Installed()
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        try:
            plugin = loaded(point)
            if plugin.id in {**PLUGINS, **found.plugins}:
                raise BrokenPluginError(f"There is another plugin with the id {plugin.id}.")
        except Exception as error:
            logger.exception("the plugin %s cannot be loaded", point.name)
            kind = "" if isinstance(error, BrokenPluginError) else f"{type(error).__name__}: "
            found.broken[point.name] = one_line(f"{kind}{error}", LONGEST_ERROR)
        else:
            found.plugins[plugin.id] = plugin
    return found


def loaded(point: EntryPoint) -> Plugin:
    """Return the plugin of another package. Raises BrokenPluginError, and any error of its
    module.
    """
    plugin: Plugin = point.load()
    if isinstance(plugin, type) or not iscoroutinefunction(getattr(plugin, "run", None)):
        raise BrokenPluginError(f"{point.value} is no object with an async method run.")
    if not isinstance(plugin.id, str) or NAME.fullmatch(plugin.id) is None:
        raise BrokenPluginError("Its id has letters, digits, - and _, at most 64 of them.")
    if not isinstance(plugin.name, str) or not plugin.name.strip():
        raise BrokenPluginError("It has no name.")
    if not isinstance(plugin.capabilities, Mapping) or not plugin.capabilities:
        raise BrokenPluginError("It has no capabilities.")
    for name, capability in plugin.capabilities.items():
        if problem := problem_of(name, capability):
            raise BrokenPluginError(f"Its capability {name}: {problem}")
    return plugin


def problem_of(name: object, capability: object) -> str:
    """Return why this is no capability; empty for one."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        return "its name has letters, digits, - and _, at most 64 of them."
    if not isinstance(capability, Capability) or not isinstance(capability.description, str):
        return "it is no Capability with a description."
    schema = capability.parameters
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return "its parameters are no JSON schema of an object."
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"its JSON schema is not valid: {error.message}"
    if not all(isinstance(each, Mapping) for each in schema.get("properties", {}).values()):
        return "each of its parameters needs a schema that is an object."
    return ""
