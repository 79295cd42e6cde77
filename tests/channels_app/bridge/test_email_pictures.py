"""[T7] The pictures of an answer are in its e-mail, as the example in docs/ sends it."""

import base64
import email
import email.policy
import sys
from email.message import EmailMessage
from typing import Any

import pytest
from django.conf import settings

EXAMPLES = settings.BASE_DIR / "docs" / "examples"


def test_t7_an_answers_pictures_are_shown_below_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    words: Any = __import__("email_words")
    monkeypatch.delitem(sys.modules, "email_words")
    mail = EmailMessage()
    mail.set_content("Here it is.")
    words.show(mail, [f"data:image/png;base64,{base64.b64encode(b'picture').decode()}"])
    sent: Any = email.message_from_bytes(mail.as_bytes(), policy=email.policy.default)
    assert sent.get_body(("plain",)).get_content().strip() == "Here it is."
    (shown,) = list(sent.iter_attachments())
    assert (shown.get_content_type(), shown.get_content()) == ("image/png", b"picture")
    assert shown.get_content_disposition() == "inline"
    sender = (EXAMPLES / "email_bridge.py").read_text(encoding="utf-8")
    assert 'show(mail, answer.get("images", []))' in sender
