"""The files under ``locale/``: read, brought up to date, and compiled."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.conf import settings
from django.utils.translation import to_locale

from gateway_project.home import BASE_DIR
from tests.catalogues import sources
from tests.catalogues.sources import Text

LOCALE = BASE_DIR / "locale"
DOMAINS = {"django": sources.of_pages, "djangojs": sources.of_scripts}


class Ours(Catalog):
    """A catalogue whose head has no dates and names: the same sources make the same file."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Project-Id-Version", "Latchkey"),
            ("Language", str(self.locale)),
            ("Plural-Forms", self.plural_forms),
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "8bit"),
        ]


def locales() -> list[str]:
    """Return the names of the folders: all of the interface's languages but English."""
    codes = [code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE]
    return [to_locale(code) for code in codes]


def path_of(locale: str, domain: str) -> Path:
    return LOCALE / locale / "LC_MESSAGES" / f"{domain}.po"


def read(path: Path, locale: str) -> Catalog:
    """Return a catalogue; an empty one where there is no file yet."""
    if not path.exists():
        return Catalog(locale=locale)
    with path.open("rb") as file:
        return read_po(file, locale=locale, abort_invalid=True)


def compiled(catalog: Catalog) -> bytes:
    """Return the content of a ``.mo`` file."""
    made = BytesIO()
    write_mo(made, catalog)
    return made.getvalue()


def written(catalog: Catalog) -> bytes:
    """Return the content of a ``.po`` file."""
    made = BytesIO()
    write_po(made, catalog, width=0, sort_output=True, ignore_obsolete=True, include_lineno=False)
    return made.getvalue()


def made(texts: Iterable[Text], old: Catalog, locale: str) -> Catalog:
    """Return the catalogue of these texts, with the translations of ``old``."""
    fresh = Ours(
        locale=locale,
        charset="utf-8",
        fuzzy=False,
        header_comment="# Made by `make messages`; the translations are written by hand.",
    )
    for key, files in grouped(texts):
        singular, plural, context = key
        known = old.get(singular, context or None)
        fresh.add(
            (singular, plural) if plural else singular,
            known.string if known is not None else None,
            locations=[(file, 1) for file in files],
            context=context or None,
        )
    return fresh


def grouped(texts: Iterable[Text]) -> Iterator[tuple[tuple[str, str, str], list[str]]]:
    """Yield each text once, with its files. A plural belongs to its singular."""
    files: dict[tuple[str, str], set[str]] = defaultdict(set)
    plurals: dict[tuple[str, str], str] = {}
    for text in texts:
        files[text.singular, text.context].add(text.file)
        if text.plural:
            plurals[text.singular, text.context] = text.plural
    for (singular, context), found in sorted(files.items()):
        yield (singular, plurals.get((singular, context), ""), context), sorted(found)


def update() -> list[str]:
    """Write and compile all catalogues; return the texts that have no translation, with a place."""
    missing: list[str] = []
    for domain, texts in DOMAINS.items():
        found = list(texts())
        for locale in locales():
            path = path_of(locale, domain)
            catalog = made(found, read(path, locale), locale)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written(catalog))
            path.with_suffix(".mo").write_bytes(compiled(catalog))
            missing += [f"{locale}/{domain}: {each.id}" for each in untranslated(catalog)]
    return missing


def untranslated(catalog: Catalog) -> list[Message]:
    return [each for each in catalog if each.id and is_missing(each.string or "")]


def is_missing(string: str | Iterable[str]) -> bool:
    return not string if isinstance(string, str) else not all(string)
