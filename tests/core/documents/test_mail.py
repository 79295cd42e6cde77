"""E-mails, and pages saved in one file, as their reader sees them."""

from email.message import EmailMessage
from pathlib import Path

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
