"""A certificate authority of a test's own, and a certificate for 127.0.0.1 that it signed."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificates(NamedTuple):
    """Files in PEM: the authority to trust, the server's chain, the server's key."""

    authority: Path
    chain: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """Valid for a day."""
    root_key, leaf_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = _name("gofer test authority")
    root = (
        _builder(root_name, root_name, root_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(*(at in (5, 6) for at in range(9))), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    leaf = (
        _builder(_name("127.0.0.1"), root_name, leaf_key.public_key())
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    made = Certificates(folder / "ca.pem", folder / "chain.pem", folder / "leaf.key")
    pem = serialization.Encoding.PEM
    made.authority.write_bytes(root.public_bytes(pem))
    made.chain.write_bytes(leaf.public_bytes(pem) + root.public_bytes(pem))
    plain = serialization.NoEncryption()
    made.key.write_bytes(leaf_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return made


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
