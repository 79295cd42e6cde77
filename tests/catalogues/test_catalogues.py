"""[W65] Each catalogue has every text of the sources, translated, and nothing else."""

import re
from collections.abc import Iterator
from io import BytesIO

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import read_mo
from django.utils import translation
from django.utils.translation import ngettext

from core.lib import interface_language
from tests.catalogues import catalogue
from tests.catalogues.catalogue import DOMAINS, locales, path_of, read

EACH = [(locale, domain) for locale in locales() for domain in DOMAINS]
# Values, tags, and commands: the same in each language.
FIXED = re.compile(r"%\(\w+\)[sd]|\{\w*\}|</?[a-z]+[^>]*>|(?<![\w<])/[a-z]+\b|GATEWAY_\w+")
KEY_NAMES = re.compile(r"<kbd>[^<]*</kbd>")
# Beside values no text has these: they would end an attribute, or begin a tag.
UNSAFE = re.compile(r'[<>&"]')


def messages(locale: str, domain: str) -> Iterator[Message]:
    for each in read(path_of(locale, domain), locale):
        if each.id:
            yield each


def forms(text: object) -> list[str]:
    return [text] if isinstance(text, str) else [str(each) for each in text]  # type: ignore[attr-defined]


@pytest.mark.parametrize("domain", DOMAINS)
def test_w65_catalogues_have_the_texts_of_the_sources(domain: str) -> None:
    """After a change of texts: `make messages`."""
    texts = list(DOMAINS[domain]())
    assert len(texts) > 100
    for locale in locales():
        path = path_of(locale, domain)
        made = catalogue.made(texts, read(path, locale), locale)
        assert path.read_bytes() == catalogue.written(made), f"{path} is out of date: make messages"


@pytest.mark.parametrize(("locale", "domain"), EACH)
def test_w65_each_text_is_translated(locale: str, domain: str) -> None:
    found: Catalog = read(path_of(locale, domain), locale)
    assert not catalogue.untranslated(found)
    assert not [each.id for each in found if each.fuzzy and each.id]
    assert not found.obsolete
    for each in messages(locale, domain):
        if each.pluralizable:
            assert len(forms(each.string)) == found.num_plurals, each.id


@pytest.mark.parametrize(("locale", "domain"), EACH)
def test_w65_translations_keep_placeholders_and_tags(locale: str, domain: str) -> None:
    for each in messages(locale, domain):
        plural = forms(each.id)[-1]
        wanted = sorted(FIXED.findall(KEY_NAMES.sub("<kbd></kbd>", plural)))
        for form in forms(each.string):
            given = sorted(FIXED.findall(KEY_NAMES.sub("<kbd></kbd>", form)))
            is_of_one = each.pluralizable and form == forms(each.string)[0]
            # "every minute" needs no number.
            assert given == wanted or (is_of_one and set(given) <= set(wanted)), (each.id, form)


@pytest.mark.parametrize(("locale", "domain"), EACH)
def test_w65_translations_are_safe_in_html_and_attributes(locale: str, domain: str) -> None:
    for each in messages(locale, domain):
        english = "".join(forms(each.id))
        for form in forms(each.string):
            assert set(UNSAFE.findall(form)) <= set(UNSAFE.findall(english)), (each.id, form)
            # A text of several pieces has its spaces on purpose.
            if locale not in ("zh_Hans", "ja"):
                assert form[:1].isspace() == english[:1].isspace(), (each.id, form)


@pytest.mark.parametrize(("locale", "domain"), EACH)
def test_w65_compiled_catalogues_are_the_written_ones(locale: str, domain: str) -> None:
    path = path_of(locale, domain)
    texts = list(DOMAINS[domain]())
    made = catalogue.made(texts, read(path, locale), locale)
    compiled = path.with_suffix(".mo").read_bytes()
    assert compiled == catalogue.compiled(made), f"{path} was changed since: make messages"
    assert len(list(read_mo(BytesIO(compiled)))) > 100


def test_w65_numbers_have_the_forms_of_their_language() -> None:
    def said(language: str, count: int) -> str:
        with interface_language.spoken(language):
            return ngettext("{count} picture", "{count} pictures", count).format(count=count)

    assert [said("de", each) for each in (0, 1, 2)] == ["0 Bilder", "1 Bild", "2 Bilder"]
    assert [said("fr", each) for each in (0, 1, 2)] == ["0 image", "1 image", "2 images"]
    assert [said("zh-CN", each) for each in (1, 2)] == ["1 张图片", "2 张图片"]
    assert translation.get_language() == "en"
