"""How static files are stored: compressed, and named by their content, imports of modules included.

Without the second a page could, for a minute after an upgrade, run new modules with old ones.
"""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # untyped base
    """Names in ``import`` statements of ES modules are changed as those in style sheets are."""

    support_js_module_import_aggregation = True
