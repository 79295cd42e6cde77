"""E-mails, and pages saved in one file, as their reader sees them."""

from email.message import EmailMessage
from pathlib import Path

import pytest

from core.documents import read
from core.documents.reader import parts_of_mail


def parts(folder: Path, content: bytes) -> list[tuple[str, str]]:
    """Return what is read of a message that has text."""
    (folder / "a.eml").write_bytes(content)
    return [pair for pair in parts_of_mail(folder / "a.eml") if pair[1].strip()]


def test_a_mail_is_read_without_its_encodings(tmp_path: Path) -> None:
    made = EmailMessage()
    made["From"], made["To"] = "Jürgen <j@mill.example>", "ada@mill.example"
    made["Subject"] = "Größe der Mühle"
    made.set_content("Die Mühle hat 5 m².\n", cte="base64")
    made.add_alternative("<p>Die <b>Mühle</b></p>", subtype="html")
    made.add_attachment(b"PK", maintype="application", subtype="zip", filename="Pläne.zip")
    assert parts(tmp_path, made.as_bytes()) == [
        ("head", "From: Jürgen <j@mill.example>\nTo: ada@mill.example\nSubject: Größe der Mühle"),
        ("", "Die Mühle hat 5 m²."),
        ("attachments", "Pläne.zip"),
    ]


def test_a_mail_whose_plain_form_is_blank_is_read_in_its_other_form(tmp_path: Path) -> None:
    """As newsletters write it."""
    made = EmailMessage()
    made["Subject"] = "News"
    made.set_content("\n")
    made.add_alternative("<p>The mill turns.</p>", subtype="html")
    assert parts(tmp_path, made.as_bytes())[1:] == [("", "The mill turns.")]


def test_all_texts_of_a_mail_are_read(tmp_path: Path) -> None:
    """As Apple Mail writes them around a picture, and those of a message that is forwarded."""
    forwarded = (
        b"From: a@b.example\nSubject: Plan\nMIME-Version: 1.0\n"
        b'Content-Type: multipart/alternative; boundary="y"\n\n--y\nContent-Type: text/plain\n\n'
        b"Tuesday\n--y\nContent-Type: text/html\n\n<p>Tuesday</p>\n--y--\n"
    )
    content = (
        b'Subject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="x"\n\n'
        b"--x\nContent-Type: text/plain\n\nBefore it.\n"
        b"--x\nContent-Type: image/png\nContent-Disposition: inline; filename=a.png\n\nP\n"
        b"--x\nContent-Type: text/html\n\n<p>After it.</p>\n"
        b"--x\nContent-Type: text/plain\nContent-Disposition: attachment; filename=b.txt\n\nFile\n"
        b"--x\nContent-Type: message/rfc822\nContent-Disposition: attachment\n\n"
    )
    assert parts(tmp_path, content + forwarded + b"--x--\n") == [
        ("head", "Subject: x"),
        ("", "Before it."),
        ("", "After it."),
        ("", "From: a@b.example\nSubject: Plan"),
        ("", "Tuesday"),
        ("attachments", "a.png\nb.txt"),
    ]


@pytest.mark.parametrize("nothing", ["<!-- sent by a list -->", "<!DOCTYPE html>", "</p>"])
def test_a_part_of_a_mail_that_shows_nothing_leaves_the_rest(tmp_path: Path, nothing: str) -> None:
    """To lxml it is no document."""
    made = EmailMessage()
    made.set_content("The mill turns.\n")
    made.add_attachment(nothing, subtype="html", disposition="inline")
    assert parts(tmp_path, made.as_bytes()) == [("", "The mill turns.")]


async def test_a_page_saved_in_one_file_is_read_as_a_page(tmp_path: Path) -> None:
    """As Chrome does."""
    made = (
        b"From: <Saved by Blink>\nSubject: =?utf-8?Q?M=C3=BChle?=\nMIME-Version: 1.0\n"
        b'Content-Type: multipart/related; type="text/html"; boundary="x"\n\n--x\n'
        b"Content-Type: text/html\nContent-Transfer-Encoding: quoted-printable\n\n"
        b'<html><head><meta charset=3D"utf-8"></head><body><h1>M=C3=BChle</h1>A long=\n line\n'
        b"--x\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo=\n--x--\n"
    )
    path = tmp_path / "a.mhtml"
    path.write_bytes(made)
    assert await read.parts(path, name="a.mhtml", most_megabytes=1) == [
        ("head", 'From: "Saved by Blink"\nSubject: Mühle'),
        ("section Mühle", "Mühle\nA long line"),
    ]


def test_a_mail_of_nonsense_is_no_failure(tmp_path: Path) -> None:
    content = b"From: <<>,\nTo: =?x?y?z?=\nContent-Type: text/plain; charset=nonsense\n\nHello\n"
    assert parts(tmp_path, content)[-1] == ("", "Hello")


def test_a_mail_with_a_part_of_nonsense_is_read_but_for_that_part(tmp_path: Path) -> None:
    content = (
        b"Subject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n"
        b"--x\nContent-Type: text/plain\nContent-Disposition: *0*0*<@;x*0*\n\nLost\n"
        b"--x\nContent-Type: text/plain\n\nHello\n--x--\n"
    )
    assert parts(tmp_path, content) == [("head", "Subject: x"), ("", "Hello")]
