"""Where a job can die, and the plugins that the workers of these tests know."""

# Name -> (module, attribute path, before or after the call).
POINTS = {
    "after claim": ("core.jobs", "claim", "after"),
    "while the plugin works": ("core.long.host", "Host.progress", "after"),
    "before the files are kept": ("core.long.work", "kept", "before"),
    "before the end is committed": ("core.jobs", "finish", "before"),
    "after the end is committed": ("core.jobs", "finish", "after"),
}
TEST_PLUGINS = {
    "ppt-generation": "tests.long.slides.PLUGIN",
    "html-slides": "tests.long.slides.HTML_PLUGIN",
}
