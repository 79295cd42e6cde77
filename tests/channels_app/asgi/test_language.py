"""[W68] The language of pages: the person's choice, else the browser's, else English.

[W69] Programs are answered in English, whatever language they ask for.
"""

import json
from typing import Any

import pytest
from django.test import Client

from allowlist import keys
from allowlist.models import ApiKey, AuditEntry
from core.lib import script_texts
from core.models import User

pytestmark = pytest.mark.django_db(transaction=True)
JSON = "application/json"


@pytest.fixture
def bea() -> User:
    return User.objects.create_user("bea", password="correct horse", display_name="Bea")


def page(user: User | None = None, language: str = "", path: str = "/sign-in") -> Any:
    headers = {"Accept": "text/html", **({"Accept-Language": language} if language else {})}
    client = Client(headers=headers)
    if user is not None:
        client.force_login(user)
    return client.get(path)


@pytest.mark.parametrize(
    ("language", "lang", "title"),
    [
        ("", "en", "Sign in"),
        ("de-AT,en;q=0.5", "de", "Anmelden"),
        ("zh-CN", "zh-hans", "登录"),
        ("pt", "en", "Sign in"),
    ],
)
def test_w68_a_page_has_the_language_of_the_browser(language: str, lang: str, title: str) -> None:
    answer = page(language=language)
    assert answer.headers["Content-Language"] == lang
    assert "Accept-Language" in answer.headers["Vary"]
    text = answer.content.decode()
    assert f'<html lang="{lang}">' in text
    assert f"<h1>{title}</h1>" in text
    assert ("/texts/" in text) == (lang != "en")


def test_w68_the_persons_choice_comes_before_the_browser(bea: User) -> None:
    assert page(bea, "fr", "/").headers["Content-Language"] == "fr"
    bea.language = "ja"
    bea.save()
    answer = page(bea, "fr", "/")
    assert answer.headers["Content-Language"] == "ja"
    assert "新しいチャット" in answer.content.decode()
    bea.language = "pt-BR"  # of the person, but none that the interface has
    bea.save()
    assert page(bea, "fr", "/").headers["Content-Language"] == "fr"


def test_w68_the_language_is_chosen_in_the_settings(bea: User) -> None:
    client = Client(headers={"Accept-Language": "fr"})
    client.force_login(bea)

    def choose(language: object) -> Any:
        body = json.dumps({"language": language})
        return client.post("/chat/settings", body, content_type=JSON)

    assert choose("de").json() == {"ok": True}
    assert client.get("/").headers["Content-Language"] == "de"
    assert choose("").json() == {"ok": True}
    assert client.get("/").headers["Content-Language"] == "fr"
    for wrong in ("xx", "../de", None, 7, "DE", ["de"]):
        assert choose(wrong).status_code == 400
    bea.refresh_from_db()
    assert bea.language == ""
    changes = AuditEntry.objects.filter(action="setting.changed").order_by("id")
    assert [each.data for each in changes] == [{"language": ["", "de"]}, {"language": ["de", ""]}]


def test_w68_errors_are_in_the_language_of_the_page(bea: User) -> None:
    answer = page(bea, "es", "/nothing-here")
    assert answer.status_code == 404
    assert "Página no encontrada" in answer.content.decode()
    client = Client(headers={"Accept-Language": "es"})
    assert client.get("/chat/sessions").json()["error"] == "Vuelve a iniciar sesión."


def test_w69_the_rest_interface_is_english(bea: User) -> None:
    _, token = keys.create(user=bea, name="k", scopes=[ApiKey.Scope.CHAT])
    headers = {"Accept-Language": "de", "Authorization": f"Bearer {token}"}
    bea.language = "de"
    bea.save()
    answer = Client(headers=headers).get("/api/sessions/nothing/")
    assert answer.status_code in (403, 404)
    assert "Content-Language" not in answer.headers
    assert "nicht" not in answer.content.decode()


def test_w69_the_admin_is_english_as_a_whole(bea: User) -> None:
    bea.is_staff = bea.is_superuser = bea.is_owner = True
    bea.language = "de"
    bea.save()
    answer = page(bea, "de", "/admin/core/user/")
    assert answer.status_code == 200
    text = answer.content.decode()
    assert "Search" in text
    assert "Suche" not in text
    assert "/texts/" not in text


@pytest.mark.parametrize("language", ["de", "fr", "es", "zh-hans", "ja"])
def test_w67_the_texts_of_scripts_are_kept_until_they_change(language: str) -> None:
    version = script_texts.version(language)
    answer = Client().get(f"/texts/{language}/{version}.js")
    assert answer.headers["Content-Type"].startswith("text/javascript")
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    text = answer.content.decode()
    assert "New chat" in text
    assert "Permission" not in text  # of Django's own admin
    assert Client().get(f"/texts/{language}/old.js").headers["Cache-Control"] == "no-cache"
    assert Client().get("/texts/xx/old.js").status_code == 404
    assert len(text) < 40_000


def test_w67_a_page_names_the_texts_of_its_language_before_its_scripts(bea: User) -> None:
    text = page(bea, "de", "/").content.decode()
    address = f"/texts/de/{script_texts.version('de')}.js"
    assert text.index(address) < text.index('type="module"')
    assert "<script>" not in text
