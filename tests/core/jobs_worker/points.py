"""The points where a job can die, and the plugins that the workers of these tests know."""

from importlib import import_module
from typing import Any

# Name -> (module, attribute path, before or after the call).
POINTS = {
    "before the claim": ("core.conversations.jobs", "claim", "before"),
    "after the claim": ("core.conversations.jobs", "claim", "after"),
    "while the plugin works": ("core.jobs_worker.host", "Host.progress", "before"),
    "before the files are kept": ("core.jobs_worker.work", "kept", "before"),
    "before the end is committed": ("core.conversations.jobs", "finish", "before"),
    "after the end is committed": ("core.conversations.jobs", "finish", "after"),
}
TEST_PLUGINS = {
    "ppt-generation": "tests.core.jobs_worker.slides.PLUGIN",
    "html-slides": "tests.core.jobs_worker.slides.HTML_PLUGIN",
}


def prepare() -> None:
    """Install the plugins of the tests."""
    registry: Any = import_module("core.plugins.registry")
    registry.PLUGINS |= TEST_PLUGINS
