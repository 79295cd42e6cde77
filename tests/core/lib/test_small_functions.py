"""Texts, ids, token estimates, secrets and files: the small shared functions."""

import base64
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from core.files import storage
from core.lib import encryption, ids, languages, text, tokens
from core.models import ChannelAccount, StoredFile, User

CODE = "for each in this:\n    if each is None and that is from the file:\n        pass\n" * 9


@given(st.text(st.characters(), max_size=200))
def test_a_cleaned_text_can_be_encoded_and_holds_no_nul(value: str) -> None:
    clean = text.clean(value)
    assert "\x00" not in clean.encode().decode()
    assert text.is_clean(clean)
    assert text.is_clean(value) == (clean == value)


def test_a_lone_surrogate_becomes_a_replacement_character_and_an_emoji_stays() -> None:
    assert text.clean("a\ud800b\x00c 😀") == "a\ufffdbc 😀"


@pytest.mark.parametrize(
    ("words", "tag"),
    [
        ("Das ist die Antwort, und mehr gibt es nicht.", "de"),
        ("The answer to the question is in the book.", "en"),
        ("這是一個問題", "zh-TW"),
        ("OK, 42.", ""),
        ("Saluton, mondo", ""),
        (f"So geht es, und mehr ist nicht zu tun:\n\n```python\n{CODE}```", "de"),
        (f"```\n{CODE}```\n\nDas ist die Funktion, mit `is in the of` für den Anfang.", "de"),
        (f"~~~\n{CODE}", ""),
        ("Вода кипит при ста градусах, а лёд тает при нуле.", "ru"),
        ("Ось кілька порад, які допоможуть вам почати.", "uk"),
        ("Ето няколко съвета, които ще ти помогнат да започнеш.", "bg"),
        ("Ево неколико савета који ће ти помоћи да почнеш.", ""),  # Serbian
        ("Еве неколку совети што ќе ти помогнат да започнеш.", ""),  # Macedonian
        ("Вось некалькі парад. Спачатку выберыце тэму.", ""),  # Belarusian
        ("Міне, бастауға көмектесетін бірнеше кеңес.", ""),  # Kazakh
        ("البته! چند نکته برای شروع کار شما.", "fa"),
        ("إليك بعض النصائح التي ستساعدك على البدء.", "ar"),
        ("یہاں چند مشورے ہیں جو آپ کو شروع کرنے میں مدد دیں گے۔", ""),  # Urdu
        ("यहाँ कुछ सुझाव हैं जो शुरू करने में आपकी मदद करेंगे।", "hi"),
        ("सुरुवात करण्यासाठी मदत करणारे काही सल्ले येथे आहेत.", ""),  # Marathi
        ("וואָס זענען די עצות פֿאַר אײַך?", ""),  # Yiddish
        ("Siin on mõned nõuanded. See on oluline, sest see on esimene samm.", ""),  # Estonian
        ("Tukaj je nekaj nasvetov na poti do cilja, ki ti bodo pomagali začeti z delom.", ""),
    ],
)
def test_the_language_of_a_text_is_named_only_where_its_words_tell(words: str, tag: str) -> None:
    """A screen reader would read it in the wrong voice."""
    assert languages.spoken_in(words) == tag


@pytest.mark.unmeasured
def test_invisible_characters_are_shown_as_their_codes_and_others_as_they_are() -> None:
    """Every character of Unicode, alone and beside one that is invisible."""
    for each in map(chr, range(sys.maxunicode + 1)):
        is_blank = each in "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
        is_unseen = unicodedata.category(each) in text.UNSEEN or is_blank
        is_shown = not is_unseen or each in "\n\t"
        expected = each if is_shown else f"⟨U+{ord(each):04X}⟩"
        assert text.visible(each) == expected
    assert text.visible("a\u202eb\xa0c") == "a⟨U+202E⟩b\xa0c"
    assert text.visible("❤\ufe0f\U000e0141 辻\U000e0100") == "❤\ufe0f⟨U+E0141⟩ 辻\U000e0100"


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (11, "11 files")]
)
def test_a_number_has_its_noun(number: int, said: str) -> None:
    assert text.counted(number, "file") == said
    assert text.counted(number, "entry", "entries").endswith("y" if number == 1 else "ies")


def test_rlog1_one_line_has_no_control_characters_and_keeps_its_limit() -> None:
    assert text.one_line("a\n\tb\u202ec\x07", 10) == "a b c"
    assert text.one_line("x" * 30, 10) == "x" * 9 + "…"
    assert text.one_line("\u3164\u3164 ", 10) == ""


@pytest.mark.parametrize(
    "words",
    [
        "👨\u200d👩\u200d👧",
        "👍🏽 🏳️\u200d🌈",
        "🐦\u200d⬛ 👩🏽\u200d⚕️",
        "می\u200cخواهم",
        "श्री ක්\u200dෂ",
        "क्\u200cष",
    ],
)
def test_one_line_keeps_joined_emoji_and_letters(words: str) -> None:
    """A title in Persian was misspelt, and a family fell into its members."""
    assert text.one_line(words, 40) == words


@pytest.mark.parametrize(
    "words",
    [
        "A\u200dda",
        "\u200dA",
        "A\u200c",
        "می\u200c\u200cخ",
        "👨\u200d\u200d👩",
        "👨\u200dA",
        "👨\u200c👩",
    ],
)
def test_one_line_has_no_joiner_that_only_hides(words: str) -> None:
    """A name would look like another one."""
    said = text.one_line(words, 40)
    assert set(text.JOINERS).isdisjoint(said)
    assert said == text.one_line(said, 40)


def test_one_line_is_not_cut_behind_a_joiner() -> None:
    assert text.one_line("👨\u200d👩\u200d👧", 3) == "👨…"


@pytest.mark.parametrize(
    "value", ["", "short", "x" * 23, "../../../etc/passwd/aa", 5, None, "é" * 22]
)
def test_rf7_only_a_public_id_is_one(value: object) -> None:
    assert not ids.is_public_id(value)


def test_rf7_public_ids_are_long_and_never_the_same() -> None:
    made = {ids.public_id() for _ in range(1000)}
    assert len(made) == 1000
    assert all(ids.is_public_id(each) for each in made)


def test_tokens_are_estimated_on_the_careful_side() -> None:
    assert tokens.estimate("") == 4
    assert tokens.estimate("a" * 400) == 104
    assert tokens.estimate("界" * 100) == 154


def test_secrets_can_be_opened_again_also_after_the_key_was_rotated(
    settings: Settings,
) -> None:
    settings.GATEWAY_ENCRYPTION_KEYS = ["old"]
    box = encryption.encrypt({"token": "s3cret"})
    assert "s3cret" not in box
    settings.GATEWAY_ENCRYPTION_KEYS = ["new", "old"]
    assert encryption.decrypt(box) == {"token": "s3cret"}
    settings.GATEWAY_ENCRYPTION_KEYS = ["new"]
    with pytest.raises(encryption.DecryptError):
        encryption.decrypt(box)


def test_no_secrets_are_an_empty_box() -> None:
    assert encryption.encrypt({}) == ""
    assert encryption.decrypt("") == {}


@pytest.mark.django_db
def test_an_account_opens_its_own_secrets() -> None:
    account = ChannelAccount(channel="x", secrets=encryption.encrypt({"token": "t"}))
    assert account.open_secrets() == {"token": "t"}


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


def test_rf3_a_file_is_kept_under_a_path_of_ours_and_its_name_is_a_label(
    user: User, settings: Settings, tmp_path: Path
) -> None:
    settings.GATEWAY_HOME = tmp_path
    file = storage.keep(user=user, name="../../evil\r\n.png", content=PIXEL)
    assert storage.read(file) == PIXEL
    assert file.name == "../../evil .png"
    assert (storage.folder() / file.path).resolve().is_relative_to(tmp_path / "files")
    assert (storage.folder() / file.path).stat().st_mode & 0o777 == 0o600


def test_t7_an_image_of_ours_becomes_a_data_url_and_nothing_else_does(
    user: User, settings: Settings, tmp_path: Path
) -> None:
    settings.GATEWAY_HOME = tmp_path
    image = storage.keep(user=user, name="a.png", content=PIXEL)
    page = storage.keep(user=user, name="a.html", content=b"<b>")
    assert storage.inline(f"/files/{image.public_id}", user_id=user.pk) == (
        "data:image/png;base64," + base64.b64encode(PIXEL).decode()
    )
    assert storage.inline(f"/files/{page.public_id}", user_id=user.pk) is None
    assert storage.inline("https://elsewhere.example/a.png", user_id=user.pk) is None
    assert storage.inline("/files/unknown", user_id=user.pk) is None


def test_t7_a_missing_image_causes_no_failure(
    user: User, settings: Settings, tmp_path: Path
) -> None:
    settings.GATEWAY_HOME = tmp_path
    image = storage.keep(user=user, name="a.png", content=PIXEL)
    (storage.folder() / image.path).unlink()
    assert storage.inline(f"/files/{image.public_id}", user_id=user.pk) is None
    assert StoredFile.objects.filter(id=image.id).exists()
