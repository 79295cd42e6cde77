"""A Latchkey bridge for e-mail: IMAP in, SMTP out. Settings from the environment; see bridge.md."""
import email.message, email.policy, email.utils, hmac, imaplib, json, os, smtplib, threading, time, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from email_words import media, show, words
E, TLS = os.environ, "" if os.environ.get("NO_TLS") else "_SSL"
DONE = set()  # answers that were mailed; the gateway may send one again

def line(header): return " ".join(str(header or "").split())
def signature(stamp, body):
    return "v1=" + hmac.new(E["BRIDGE_SECRET"].encode(), stamp.encode() + b"." + body, "sha256").hexdigest()

def ask(mail):  # One e-mail is one request. Automatic replies are skipped: they would loop.
    (name, sender), number = email.utils.parseaddr(line(mail["From"])), line(mail["Message-ID"])[:250]
    if len(mail.get_all("From", [])) != 1 or line(mail["Auto-Submitted"] or "no").lower() != "no": return
    part, before = mail.get_body(("plain", "html")), line(mail["References"])
    body = json.dumps({"user_id": sender, "user_name": name[:250], "request_id": number[:180],
        "text": words(part), **media(mail, part), "thread_id": (before or number).split(" ")[0][:250],
        "context": json.dumps([line(mail["Subject"])[:300], number, before[-900:]], ensure_ascii=False)}).encode()
    stamp = str(int(time.time()))
    headers = {"Authorization": "Bearer " + E["BRIDGE_KEY"], "X-Latchkey-Timestamp": stamp,
               "X-Latchkey-Signature": signature(stamp, body), "Content-Type": "application/json"}
    try:
        urllib.request.urlopen(urllib.request.Request(E["GATEWAY_URL"] + "/process", body, headers), timeout=60)
    except urllib.error.HTTPError as error:
        if error.code not in (400, 401, 413, 422): raise  # retried later; 401: unknown sender, the owner was notified
        if error.code != 401: raise ValueError(error.read().decode()) from error

class Answers(BaseHTTPRequestHandler):
    def do_POST(self):  # 204 only after the mail server has the answer: else it is sent again
        body = self.rfile.read(int(self.headers["Content-Length"]))
        stamp, given = (self.headers.get("X-Latchkey-" + name, "") for name in ("Timestamp", "Signature"))
        real = hmac.compare_digest(signature(stamp, body), given) and abs(time.time() - int(stamp)) < 300
        if real: send(json.loads(body))
        self.send_response(204 if real else 401), self.end_headers()

def send(answer):
    subject, number, before = json.loads(answer.get("context") or '["A message", "", ""]')
    mail = email.message.EmailMessage()
    mail["From"], mail["To"], mail["Auto-Submitted"] = E["MAIL"], answer["chat_id"], "auto-replied"
    mail["Subject"] = subject if subject.lower().startswith("re:") else "Re: " + subject
    if number: mail["In-Reply-To"], mail["References"] = number, f"{before} {number}".strip()
    mail.set_content(answer["text"]), show(mail, answer.get("images", []))
    if answer["delivery_id"] not in DONE:
        with getattr(smtplib, "SMTP" + TLS)(E["SMTP_HOST"], int(E["SMTP_PORT"]), timeout=60) as smtp:
            if TLS: smtp.login(E["MAIL"], E["MAIL_PASSWORD"])
            smtp.send_message(mail)
        DONE.add(answer["delivery_id"])

def take(imap, uid, flags="(\\Seen)"):  # unread until the 202; what cannot be passed on is flagged
    try: ask(email.message_from_bytes(imap.uid("FETCH", uid, "(BODY.PEEK[])")[1][0][1], policy=email.policy.default))
    except (LookupError, TypeError, ValueError) as error: flags = print("flagged:", error) or "(\\Seen \\Flagged)"
    imap.uid("STORE", uid, "+FLAGS", flags)
threading.Thread(target=HTTPServer(("127.0.0.1", int(E["BRIDGE_PORT"])), Answers).serve_forever, daemon=True).start()
while True:
    try:
        with getattr(imaplib, "IMAP4" + TLS)(E["IMAP_HOST"], int(E["IMAP_PORT"]), timeout=60) as imap:
            imap.login(E["MAIL"], E["MAIL_PASSWORD"]), imap.select("INBOX")
            for uid in imap.uid("SEARCH", "UNSEEN")[1][0].split(): take(imap, uid)
    except (OSError, imaplib.IMAP4.error) as error: print("again soon:", error, flush=True)
    time.sleep(float(E.get("POLL_SECONDS", "20")))
