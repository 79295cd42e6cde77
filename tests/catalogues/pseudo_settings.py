"""The product's settings with the pseudo-language of :mod:`tests.catalogues.pseudo`."""

import os
from pathlib import Path

from gateway_project.settings import *  # noqa: F403
from gateway_project.settings import LANGUAGES, LOCALE_PATHS

LANGUAGES = [*LANGUAGES, ("qps", "⟦pseudo⟧")]
LOCALE_PATHS = [*LOCALE_PATHS, Path(os.environ["TEST_PSEUDO_LOCALE"])]
