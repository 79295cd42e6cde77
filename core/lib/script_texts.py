"""The catalogue of the scripts' texts: its content, and the version in its address."""

from functools import cache
from hashlib import sha256
from pathlib import Path

import django
from django.conf import settings
from django.utils.translation import to_locale
from django.utils.translation.trans_real import DjangoTranslation

DOMAIN = "djangojs"


def translation_of(language: str) -> DjangoTranslation:
    """Return our own texts of scripts, without those of other packages."""
    return DjangoTranslation(language, domain=DOMAIN, localedirs=[*map(str, settings.LOCALE_PATHS)])


@cache
def version(language: str) -> str:
    """Return a short digest that changes with the catalogue of ``language``."""
    name = Path(to_locale(language)) / "LC_MESSAGES" / f"{DOMAIN}.mo"
    files = [Path(folder) / name for folder in settings.LOCALE_PATHS]
    data = b"".join(file.read_bytes() for file in files if file.is_file())
    return sha256(data + django.__version__.encode()).hexdigest()[:16]
