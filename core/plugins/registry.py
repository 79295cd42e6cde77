"""Plugins by id: built-in ones by dotted path, others by the entry point ``latchkey.plugins``."""

import logging
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name

from core.plugins.base import Plugin

logger = logging.getLogger(__name__)

GROUP = "latchkey.plugins"
PLUGINS = {
    "ppt-generation": "core.plugins.ppt_generation.PLUGIN",
    "html-slides": "core.plugins.html_slides.PLUGIN",
    "summarize": "core.plugins.summarize.PLUGIN",
}


@cache
def every() -> dict[str, Plugin]:
    """Return all plugins by id, loaded on first use; built-in ones win over others of the same
    id.
    """
    found: dict[str, Plugin] = {name: resolve_name(path) for name, path in PLUGINS.items()}
    for point in entry_points(group=GROUP):
        plugin = loaded(point)
        if plugin is not None:
            found.setdefault(plugin.id, plugin)
    return found


def get(plugin_id: str) -> Plugin | None:
    return every().get(plugin_id)


def loaded(point: EntryPoint) -> Plugin | None:
    """Return a third-party plugin; None when it cannot be imported: the others work without it."""
    try:
        plugin: Plugin = point.load()
    except Exception:
        logger.exception("a plugin cannot be loaded")
        return None
    return plugin
