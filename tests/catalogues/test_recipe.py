"""The recipe "Add a language" of docs/languages.md, carried out in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import translation
from django.utils.translation import trans_real

from core.lib import script_texts
from core.lib.interface_language import of_header, spoken_by
from tests.catalogues import catalogue
from tests.catalogues.catalogue import DOMAINS, path_of, read


def forget() -> None:
    """Forget what Django has read of languages."""
    vars(trans_real)["_translations"].clear()
    for each in (*vars(trans_real).values(), script_texts.version):
        if hasattr(each, "cache_clear"):
            each.cache_clear()


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder for catalogues of English and Polish alone."""
    with monkeypatch.context() as patch:
        patch.setattr(catalogue, "LOCALE", tmp_path)
        patch.setattr(settings, "LANGUAGES", [("en", "English"), ("pl", "Polski")])
        patch.setattr(settings, "LOCALE_PATHS", [tmp_path])
        forget()
        yield tmp_path
    forget()


def test_w65_a_language_is_added_by_the_recipe(fresh: Path) -> None:
    assert len(catalogue.update()) > 400  # nothing is translated yet
    for domain in DOMAINS:
        path = path_of("pl", domain)
        made = read(path, "pl")
        assert made.num_plurals == 3
        for each in made:
            if each.id:
                each.string = ("a", "b", "c") if each.pluralizable else f"pl {each.id}"
        path.write_bytes(catalogue.written(made))
    assert catalogue.update() == []
    assert of_header("pl-PL,en;q=0.5") == "pl"
    assert spoken_by("pl", translation.gettext, "New chat") == "pl New chat"
    assert script_texts.translation_of("pl").gettext("Try again") == "pl Try again"
    before = path_of("pl", "django").read_bytes()
    assert path_of("pl", "django").is_relative_to(fresh)
    assert catalogue.update() == []
    assert path_of("pl", "django").read_bytes() == before
