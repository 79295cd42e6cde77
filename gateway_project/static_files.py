"""Static files: compressed, and named by their content, including imports of modules.

Without the second a page could, for a minute after an upgrade, run new modules with old ones.
"""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # untyped base
    """Rewrite names in ``import`` statements of ES modules as those in style sheets."""

    support_js_module_import_aggregation = True
