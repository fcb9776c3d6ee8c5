"""A webhook receiver and a mail server for this machine.

Both speak their protocols with other people's code: signatures are checked by the
Standard Webhooks library, mail is taken by aiosmtpd. What arrives is told on
stdout, one JSON object a line; the first line says where everything listens.
Ends when stdin does.

What a request asks for decides what it is answered:

    /accepts      200
    /busy-twice   503 for the first two attempts at a webhook, then 200
    /gone         410
    /redirects    302, to where a cloud keeps its credentials

And so does whom a mail is for: whoever is called silent-... gets a mail server
that has taken the message and never says so.
"""

import asyncio
import base64
import collections
import datetime
import http.server
import ipaddress
import json
import logging
import os
import secrets
import ssl
import sys
import tempfile
import threading

from aiosmtpd.smtp import SMTP, AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from standardwebhooks import Webhook, WebhookVerificationError

HOST = "127.0.0.1"
LOCK = threading.Lock()

# Made anew each time. The sender has both, as in a rotation; the receiver has
# the new one already.
OLD_SECRET, SECRET = (
    "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode() for _ in range(2)
)
LOGIN, PASSWORD = "relevo", secrets.token_urlsafe()


def tell(**event):
    with LOCK:
        print(json.dumps(event), flush=True)


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    attempts = collections.Counter()

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        webhook_id = self.headers.get("webhook-id", "")
        with LOCK:
            self.attempts[webhook_id] += 1
            attempts = self.attempts[webhook_id]
        status, headers = {
            "/accepts": (200, {}),
            "/busy-twice": (503 if attempts <= 2 else 200, {"Retry-After": "1"}),
            "/gone": (410, {}),
            "/redirects": (302, {"Location": "http://169.254.169.254/latest/meta-data/"}),
        }.get(self.path, (404, {}))
        tell(
            what="webhook",
            path=self.path,
            status=status,
            signature=self.signature(body),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body.decode(),
        )
        text = b"thank you" if status == 200 else b""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def signature(self, body):
        if "webhook-signature" not in self.headers:
            return "none"
        try:
            Webhook(SECRET).verify(body, dict(self.headers.items()), json_parse=False)
        except WebhookVerificationError as error:
            return str(error)
        return "verified"

    def log_message(self, *_):
        pass


class Mailbox:
    async def handle_DATA(self, server, session, envelope):
        tell(
            what="mail",
            sender=envelope.mail_from,
            recipients=envelope.rcpt_tos,
            message=envelope.content.decode(),
            tls=server.transport.get_extra_info("cipher") is not None,
            login=session.auth_data,
        )
        if any(recipient.startswith("silent-") for recipient in envelope.rcpt_tos):
            await asyncio.sleep(3600)
        return "250 taken"


def authenticate(_server, _session, _envelope, _mechanism, data):
    is_right = (data.login, data.password) == (LOGIN.encode(), PASSWORD.encode())
    return AuthResult(success=is_right, handled=False, auth_data=LOGIN)


async def serve_mail(ssl=None, **options):
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(Mailbox(), hostname="mail.localhost", **options), HOST, 0, ssl=ssl
    )
    return server.sockets[0].getsockname()[1]


def serve_http(context=None):
    server = http.server.ThreadingHTTPServer((HOST, 0), Receiver)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


class Authority:
    """Vouches for servers on this machine, for those who were told of it."""

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Relevo's receivers")])
        self.certificate = self.sign(self.name, self.key, x509.BasicConstraints(True, None))

    def sign(self, subject, key, extension):
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, True)
            .sign(self.key, hashes.SHA256())
        )

    def vouch_for(self, name):
        """TLS for the server of this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.sign(x509.Name([]), key, x509.SubjectAlternativeName([name]))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate.public_bytes(serialization.Encoding.PEM))
            file.write(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
            )
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()


def end_with_stdin():
    sys.stdin.read()
    os._exit(0)


async def main():
    threading.Thread(target=end_with_stdin, daemon=True).start()
    # It warns of what it does itself when somebody logs in.
    logging.getLogger("mail.log").setLevel(logging.ERROR)
    authority = Authority()
    tls = authority.vouch_for(x509.DNSName("localhost"))
    nobody = Authority().vouch_for(x509.IPAddress(ipaddress.ip_address(HOST)))
    tell(
        http=serve_http(),
        https=serve_http(nobody),
        smtp=await serve_mail(),
        # For aiosmtpd only what STARTTLS brought about counts as TLS.
        smtps=await serve_mail(tls, authenticator=authenticate, auth_require_tls=False),
        starttls=await serve_mail(
            tls_context=tls, require_starttls=True, authenticator=authenticate, auth_required=True
        ),
        authority=authority.pem(),
        login=LOGIN,
        password=PASSWORD,
        secrets=[OLD_SECRET, SECRET],
    )
    await asyncio.Event().wait()


asyncio.run(main())
