"""The language of the interface that fits a tag or a header."""

import pytest
from django.utils.translation import gettext

from core.lib.interface_language import of_header, of_tag, spoken, spoken_by


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("de", "de"),
        ("de_AT", "de"),
        ("fr-CA", "fr"),
        ("zh", "zh-hans"),
        ("zh-CN", "zh-hans"),
        ("zh-Hant-TW", "zh-hans"),
        ("en-GB", "en"),
        ("JA", "ja"),
        ("pt-BR", ""),
        ("", ""),
        ("*", ""),
        ("de" * 200, ""),
        ("../../etc", ""),
    ],
)
def test_a_tag_has_the_language_that_fits(tag: str, language: str) -> None:
    assert of_tag(tag) == language


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("fr-FR,fr;q=0.9,en;q=0.8", "fr"),
        ("pt-BR, es;q=0.5", "es"),
        ("en;q=0.5, ja", "ja"),
        ("xx, *", "en"),
        ("de;q=nonsense", "en"),
        (",;=\x00" * 1000, "en"),
    ],
)
def test_a_header_has_its_first_language_that_there_is(header: str, language: str) -> None:
    assert of_header(header) == language


def test_texts_are_in_the_language_of_the_block_and_english_where_none_fits() -> None:
    with spoken("zh_CN"):
        assert gettext("New chat") == "新对话"
        assert spoken_by("de", gettext, "New chat") == "Neuer Chat"
        assert gettext("New chat") == "新对话"
        with spoken("pt-BR"):
            assert gettext("New chat") == "New chat"
    assert gettext("New chat") == "New chat"
