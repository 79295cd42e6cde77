"""A language in which each text is wrapped in ⟦…⟧: the rest is outside of the catalogue."""

from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from django.conf import settings

from tests.catalogues import catalogue

CODE = "qps"  # of the range that no language has
MODULE = "tests.catalogues.pseudo_settings"
FOLDER = "TEST_PSEUDO_LOCALE"


def write(folder: Path) -> None:
    """Write the catalogues of the pseudo-language, for :mod:`pseudo_settings`."""
    for domain, texts in catalogue.DOMAINS.items():
        made = Catalog(charset="utf-8")
        for (singular, plural, context), _ in catalogue.grouped(texts()):
            ids = (singular, plural) if plural else singular
            strings = tuple(map(wrapped, ids)) if plural else wrapped(singular)
            made.add(ids, strings, context=context or None)
        path = folder / CODE / "LC_MESSAGES" / f"{domain}.mo"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(catalogue.compiled(made))


def wrapped(text: str) -> str:
    return f"⟦{text}⟧"


def languages() -> Iterator[str]:
    """Yield the codes of the interface's languages, without English."""
    yield from (code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE)
