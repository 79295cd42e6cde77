"""``python -m tests.catalogues``: bring ``locale/`` up to date with the sources.

New texts are added empty, those that are gone are removed; then each ``.po`` is compiled. Prints
what has no translation yet.
"""

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from tests.catalogues import catalogue  # noqa: E402 - needs the apps that the line above sets up

if __name__ == "__main__":
    missing = catalogue.update()
    for place in missing:
        print(place)
    print(f"{len(missing)} texts have no translation." if missing else "All texts are translated.")
    sys.exit(1 if missing else 0)
