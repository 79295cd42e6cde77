"""What an e-mail asks, and an answer as an e-mail, for email_bridge.py."""
import base64, email.message, email.policy, email.utils, hashlib, html.parser, json

class Words(html.parser.HTMLParser):  # The text of a page, for e-mails that have no plain part.
    def __init__(self, page):
        super().__init__()
        self.said, self.hidden = [], 0
        self.feed(page[:100_000]), self.close()
    def handle_starttag(self, tag, attributes):
        self.hidden += tag in ("title", "style", "script")
        if tag in ("br", "p", "div", "li", "tr", "h1", "h2", "h3"): self.said.append("\n")
    def handle_endtag(self, tag): self.hidden = max(0, self.hidden - (tag in ("title", "style", "script")))
    def handle_data(self, data): self.said.append("" if self.hidden else " ".join(data.split()) + " ")

def line(header): return " ".join(str(header or "").split())
def is_file(part): return part.is_attachment() or part.get_filename()
def is_text(part): return part.get_content_type() in ("text/plain", "text/html") and not is_file(part)
def inside(mail): return list(mail.iter_parts()) if mail.get_content_maintype() == "multipart" else []
def text_in(mail, form):
    return part.get_content().strip() if (part := mail.get_body((form,))) is not None and is_text(part) else ""

def words(mail):  # Texts before and after a picture are parts of their own; of one text in two forms the plain one is taken.
    if inside(mail) and mail.get_content_subtype() not in ("alternative", "related"):
        return "\n\n".join(filter(None, map(words, inside(mail))))
    return text_in(mail, "plain") or "".join(Words(text_in(mail, "html")).said).strip()

def media(mail, found):  # Pictures and attachments, as data URLs. An e-mail in an e-mail is one file.
    for part in inside(mail): media(part, found)
    if mail.get_content_maintype() == "multipart" or is_text(mail): return found
    kind, name, data = mail.get_content_type(), line(mail.get_filename()), mail.get_payload(decode=True) or b""
    if mail.is_multipart():
        within = mail.get_payload(0)
        name = (name.removesuffix(".eml") or line(within["Subject"]) or "e-mail")[:246] + ".eml"
        data = within.as_bytes(policy=within.policy.clone(refold_source="none"))
    item = {"url": f"data:{kind};base64,{base64.b64encode(data).decode()}"} | ({"name": name[:250]} if name else {})
    found["images" if kind in ("image/png", "image/jpeg", "image/gif", "image/webp") else "files"].append(item)
    return found

def asked(mail):  # One e-mail is one request. None for automatic replies: they would loop.
    (name, sender), number = email.utils.parseaddr(line(mail["From"])), line(mail["Message-ID"])[:250]
    if len(mail.get_all("From", [])) != 1 or line(mail["Auto-Submitted"] or "no").lower() != "no": return None
    before = line(mail["References"])
    return {"user_id": sender, "user_name": name[:250], "request_id": number[:180], "text": words(mail),
            **media(mail, {"images": [], "files": []}), "thread_id": (before or number).split(" ")[0][:250],
            "context": json.dumps([line(mail["Subject"])[:300], number, before[-900:]], ensure_ascii=False)}

def letter(answer, sender):  # Address and bytes of an answer, pictures below its text. Sent twice, it has the same Message-ID.
    subject, number, before = json.loads(answer.get("context") or '["A message", "", ""]')
    mail, same = email.message.EmailMessage(email.policy.SMTP), json.dumps([answer["delivery_id"], number, answer["text"]])
    mail["From"], mail["To"], mail["Date"] = sender, answer["chat_id"], email.utils.localtime()
    mail["Subject"] = subject if subject.lower().startswith("re:") else "Re: " + subject
    mail["Auto-Submitted"], own = "auto-replied", hashlib.sha256(same.encode()).hexdigest()[:40]
    mail["Message-ID"] = f"<{own}@{sender.strip('>').rpartition('@')[2]}>"
    mail.set_content(answer["text"])
    for place, url in enumerate(answer.get("images", []), 1):
        kind, data = url.removeprefix("data:image/").partition(";")[0], base64.b64decode(url.partition(",")[2])
        mail.add_attachment(data, "image", kind, filename=f"image-{place}.{kind}", disposition="inline")
    # Above the others as they are: Python would encode a number that is longer than a line, and break the thread.
    thread = f"In-Reply-To: {number}\r\nReferences: " + "\r\n ".join(f"{before} {number}".split()) + "\r\n" if number else ""
    return answer["chat_id"], thread.encode("ascii", "replace") + mail.as_bytes()
