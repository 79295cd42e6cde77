"""The text, pictures and files of an e-mail, for email_bridge.py; and an answer's pictures."""
import base64, html.parser

class Words(html.parser.HTMLParser):  # The text of a page, for e-mails that have no plain part.
    def __init__(self, page):
        super().__init__()
        self.said, self.hidden = [], 0
        self.feed(page[:100_000]), self.close()
    def handle_starttag(self, tag, attributes):
        self.hidden += tag in ("head", "style", "script")
        if tag in ("br", "p", "div", "li", "tr", "h1", "h2", "h3"): self.said.append("\n")
    def handle_endtag(self, tag): self.hidden = max(0, self.hidden - (tag in ("head", "style", "script")))
    def handle_data(self, data): self.said.append("" if self.hidden else " ".join(data.split()) + " ")

def words(part):
    text = part.get_content() if part else ""
    return ("".join(Words(text).said) if part and part.get_content_subtype() == "html" else text).strip()

def media(mail, body):  # Pictures and attachments, as data URLs.
    found = {"images": [], "files": []}
    for part in mail.walk():
        kind = part.get_content_type()
        if part is not body and not part.is_multipart() and (part.get_content_disposition() or kind.startswith("image/")):
            data = base64.b64encode(part.get_payload(decode=True) or b"").decode()
            named = {"name": part.get_filename()[:250]} if part.get_filename() else {}
            picture = kind in ("image/png", "image/jpeg", "image/gif", "image/webp")
            found["images" if picture else "files"].append({"url": f"data:{kind};base64,{data}", **named})
    return found

def show(mail, urls):  # The pictures of an answer, below its text.
    for number, url in enumerate(urls, 1):
        head, _, data = url.partition(",")
        kind = head.removeprefix("data:image/").partition(";")[0]
        mail.add_attachment(base64.b64decode(data), "image", kind, filename=f"image-{number}.{kind}", disposition="inline")
