"""A certificate authority for tests and test clusters: certificates of servers and of users."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAYS = 365


class Pair(NamedTuple):
    """A certificate and its key, both PEM text."""

    certificate: str
    key: str

    @property
    def data(self) -> tuple[str, str]:
        """Both as a kubeconfig has them in `…-data`."""
        return encoded(self.certificate), encoded(self.key)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Authority:
    """A certificate authority. With `key`, PEM text, it issues more certificates of an older one."""

    def __init__(self, key: str = "") -> None:
        self._key = _read_key(key) if key else ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("test authority")
        self._certificate = self._signed(self._name, self._key.public_key(), is_ca=True, names=[])
        self.pem = _pem(self._certificate)

    @property
    def key(self) -> str:
        return _key_pem(self._key)

    def pair(self, common_name: str, *names: str, groups: Sequence[str] = ()) -> Pair:
        """A certificate for a server with these names, or for a client.

        Kubernetes reads the common name as the user, and the organizations as the groups of the user.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(common_name, groups)
        alternatives: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
            for name in names
        ]
        certificate = self._signed(subject, key.public_key(), is_ca=False, names=alternatives)
        return Pair(_pem(certificate), _key_pem(key))

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        is_ca: bool,
        names: list[x509.GeneralName],
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=_DAYS))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _subject(common_name: str, groups: Sequence[str] = ()) -> x509.Name:
    named = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*named, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _read_key(text: str) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(text.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
