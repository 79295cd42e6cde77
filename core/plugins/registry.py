"""Plugins by id: built-in ones by dotted path, others by the entry point ``latchkey.plugins``."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from inspect import iscoroutinefunction
from pkgutil import resolve_name

from core.lib.installed import NAME_RULE, BrokenError, Installed, is_name, problem_of, read
from core.plugins.base import Capability, Plugin

GROUP = "latchkey.plugins"
PLUGINS = {
    "ppt-generation": "core.plugins.ppt_generation.PLUGIN",
    "html-slides": "core.plugins.html_slides.PLUGIN",
    "summarize": "core.plugins.summarize.PLUGIN",
}


@cache
def every() -> dict[str, Plugin]:
    """Return all plugins by id, the gateway's first; loaded on first use."""
    own: dict[str, Plugin] = {name: resolve_name(path) for name, path in PLUGINS.items()}
    return {**own, **installed().found}


def get(plugin_id: str) -> Plugin | None:
    return every().get(plugin_id)


@cache
def installed() -> Installed[Plugin]:
    """Return the plugins of other packages. The others work without one that cannot be loaded: its
    error is logged, and shown to the owner by the doctor.
    """
    return read(GROUP, "plugin", loaded)


def loaded(point: EntryPoint, others: Mapping[str, Plugin]) -> tuple[str, Plugin]:
    """Return the plugin and its id. Raises BrokenError, and any error of its module."""
    plugin: Plugin = point.load()
    if isinstance(plugin, type) or not iscoroutinefunction(getattr(plugin, "run", None)):
        raise BrokenError(f"{point.value} is no object with an async method run.")
    if not is_name(plugin.id):
        raise BrokenError(f"Its id {NAME_RULE}")
    if not isinstance(plugin.name, str) or not plugin.name.strip():
        raise BrokenError("It has no name.")
    if not isinstance(plugin.capabilities, Mapping) or not plugin.capabilities:
        raise BrokenError("It has no capabilities.")
    for name, capability in plugin.capabilities.items():
        if problem := problem_with(name, capability):
            raise BrokenError(f"Its capability {name}: {problem}")
    if plugin.id in {**PLUGINS, **others}:
        raise BrokenError(f"There is another plugin with the id {plugin.id}.")
    return plugin.id, plugin


def problem_with(name: object, capability: object) -> str:
    """Return why this is no capability; empty for one."""
    if not is_name(name):
        return f"its name {NAME_RULE}"
    if not isinstance(capability, Capability) or not isinstance(capability.description, str):
        return "it is no Capability with a description."
    if problem := problem_of(capability.parameters):
        return f"its {problem}"
    schemas = capability.parameters.get("properties", {}).values()
    if not all(isinstance(each, Mapping) for each in schemas):
        return "each of its parameters needs a schema that is an object."
    return ""
