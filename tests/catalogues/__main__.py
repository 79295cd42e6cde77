"""``python -m tests.catalogues``: bring ``locale/`` up to date with the sources.

New texts are added empty, those that are gone are removed; then each ``.po`` is compiled.
"""

import sys

from tests.catalogues import catalogue

if __name__ == "__main__":
    sys.exit(catalogue.update())
