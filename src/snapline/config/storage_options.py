"""How storage is reached: endpoint, region, and credentials by reference. Part of a job's settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from snapline.config.secret import Secret, SecretLike
from snapline.config.setting_checks import Settings, wrong
from snapline.errors import ConfigurationError

_ENDPOINT = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")
_CREDENTIAL = re.compile(r"key|secret|token|pass|credential|connection_string", re.IGNORECASE)
"""Names of options whose values are hidden."""


@dataclass(frozen=True, slots=True, init=False)
class S3(Settings):
    """An S3 endpoint and the credentials for it; what is left out comes from the machine (an instance role, ~/.aws).

    ```python
    sl.S3(endpoint="http://minio:9000", key=sl.Secret.env("MINIO_KEY"), secret=sl.Secret.file("/run/secrets/minio"))
    ```

    endpoint: URL of the server; None is the one of AWS.
    region: the region that requests are signed for.
    key, secret: access key and secret key, both or none.
    token: session token of temporary credentials; needs `key` and `secret`.
    profile: a profile of ~/.aws on each machine, in place of `key` and `secret`.
    """

    endpoint: str | None
    region: str | None
    key: Secret | None
    secret: Secret | None
    token: Secret | None
    profile: str | None

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        key: SecretLike | None = None,
        secret: SecretLike | None = None,
        token: SecretLike | None = None,
        profile: str | None = None,
    ) -> None:
        self._fill(
            endpoint=None if endpoint is None else _endpoint(endpoint),
            region=_name(region, "region"),
            key=None if key is None else Secret.of(key, "key"),
            secret=None if secret is None else Secret.of(secret, "secret"),
            token=None if token is None else Secret.of(token, "token"),
            profile=_name(profile, "profile"),
        )
        if (self.key is None) != (self.secret is None):
            there, missing = ("key", "secret") if self.secret is None else ("secret", "key")
            raise ConfigurationError(f"S3({there}=...): is of no use without `{missing}`; give both or none")
        if self.token is not None and self.key is None:
            raise ConfigurationError("S3(token=...): is part of temporary credentials; give `key` and `secret` too")
        if self.profile is not None and self.key is not None:
            raise wrong("profile", self.profile, "stands in place of `key` and `secret`; leave out one of them")

    def fsspec_options(self) -> dict[str, Any]:
        """The options for s3fs, with secrets that are not resolved yet."""
        options = {
            "endpoint_url": self.endpoint,
            "key": self.key,
            "secret": self.secret,
            "token": self.token,
            "profile": self.profile,
            "client_kwargs": None if self.region is None else {"region_name": self.region},
        }
        return {name: value for name, value in options.items() if value is not None}

    def object_store_options(self) -> dict[str, str]:
        """The options for libraries on Rust's object_store, such as deltalake and polars, with resolved secrets.

        Call it where and when the library opens the storage, and keep the result out of messages. These libraries do
        not read profiles: with `profile` they take the credentials of the machine.
        """
        options = {
            "aws_endpoint_url": self.endpoint,
            "aws_region": self.region,
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_session_token": self.token,
            "aws_allow_http": "true" if (self.endpoint or "").startswith("http://") else None,
        }
        return {name: resolved(value) for name, value in options.items() if value is not None}


class StorageOptions:
    """Options for each scheme of storage paths: `{"s3": sl.S3(...), "hdfs": {"user": "jobs"}}`.

    Those of other schemes than S3, and of S3 in a mapping, are passed to fsspec; a value may be a `Secret`. Plain text
    under a name such as `key`, `secret`, `token` or `password` is hidden like one. Printing shows names only.
    """

    __slots__ = ("_schemes",)

    def __init__(self, schemes: Mapping[str, S3 | Mapping[str, Any]] | None = None) -> None:
        self._schemes: dict[str, dict[str, Any]] = {}
        for scheme, given in (schemes or {}).items():
            options = given.fsspec_options() if isinstance(given, S3) else given
            if not isinstance(scheme, str) or not isinstance(options, Mapping):
                raise ConfigurationError(
                    f"storage_options: {scheme!r} has a {type(given).__name__}; give options by scheme, such as "
                    '{"hdfs": {"user": "jobs"}}'
                )
            self._schemes[scheme.lower()] = _hidden(options)

    @classmethod
    def of(cls, given: StorageOptionsLike | None) -> StorageOptions:
        """What users may write as `StorageOptions`; None has no options."""
        if isinstance(given, StorageOptions):
            return given
        if given is not None and not isinstance(given, S3 | Mapping):
            raise ConfigurationError(
                f"storage_options: a {type(given).__name__}; give sl.S3(...), or options by scheme, such as "
                '{"hdfs": {"user": "jobs"}}'
            )
        return cls({"s3": given} if isinstance(given, S3) else given)

    @property
    def schemes(self) -> Mapping[str, Mapping[str, Any]]:
        """The options by scheme, with secrets that are not resolved yet."""
        return self._schemes

    def with_s3(self, given: S3) -> StorageOptions:
        """The same, with what `given` has for S3 in place of what is there."""
        return StorageOptions({**self._schemes, "s3": {**self._schemes.get("s3", {}), **given.fsspec_options()}})

    def check(self) -> None:
        """Raises if a secret is not to be had on this machine."""
        resolved(self._schemes)

    def __bool__(self) -> bool:
        return bool(self._schemes)

    def __repr__(self) -> str:
        shown = ", ".join(f"{scheme}: {' '.join(options)}" for scheme, options in self._schemes.items())
        return f"StorageOptions({shown})"

    def __eq__(self, other: object) -> bool:
        return self._schemes == other._schemes if isinstance(other, StorageOptions) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(sorted((scheme, *sorted(options)) for scheme, options in self._schemes.items())))


StorageOptionsLike: TypeAlias = StorageOptions | S3 | Mapping[str, S3 | Mapping[str, Any]]
"""Options of the storage: those of S3, or several by scheme."""


def resolved(value: Any) -> Any:
    """The same with every `Secret` in it replaced by its value. Raises as `Secret.resolve` does."""
    if isinstance(value, Secret):
        return value.resolve()
    return {name: resolved(inner) for name, inner in value.items()} if isinstance(value, Mapping) else value


def credential_values(options: Mapping[str, Any]) -> Iterator[str]:
    """The texts in resolved options that messages must not show."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from credential_values(value)
        elif isinstance(value, str) and value and _CREDENTIAL.search(name):
            yield value


def references(options: Mapping[str, Any]) -> Iterator[str]:
    """Each `Secret` in options that are not resolved, by name."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from references(value)
        elif isinstance(value, Secret):
            yield f"{name}={value!r}"


def s3_of_texts(texts: Mapping[str, str]) -> S3:
    """An `S3` from settings as text, in which a credential is a reference: `env:NAME` or `file:PATH`."""
    names = S3.__dataclass_fields__
    if unknown := sorted(set(texts) - set(names)):
        raise ConfigurationError(f"S3 has no option {unknown[0]!r}; use one of {', '.join(names)}")
    secrets = {name: secret_of_text(text, name) for name, text in texts.items() if name in ("key", "secret", "token")}
    return S3(**{**texts, **secrets})  # type: ignore[arg-type]


def secret_of_text(text: str, setting: str) -> Secret:
    """A reference as text. Others are refused without showing them: command lines and configurations can be read."""
    kind, _, source = text.partition(":")
    if kind not in ("env", "file") or not source:
        raise ConfigurationError(
            f"{setting}: not a reference; write env:NAME or file:PATH, and the credential itself there"
        )
    return Secret.env(source) if kind == "env" else Secret.file(source)


def _hidden(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with credentials in plain text wrapped."""
    return {
        name: _hidden(value)
        if isinstance(value, Mapping)
        else Secret.of(value, name)
        if isinstance(value, str) and value and _CREDENTIAL.search(name)
        else value
        for name, value in options.items()
    }


def _endpoint(value: str) -> str:
    if isinstance(value, str) and "@" in value:
        raise ConfigurationError("S3(endpoint=...): holds a user or password; give `key` and `secret` instead")
    if not isinstance(value, str) or not _ENDPOINT.fullmatch(value):
        raise wrong("endpoint", value, "not the URL of a server; give one such as http://minio:9000")
    return value


def _name(value: str | None, setting: str) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise wrong(setting, value, "give a name, or leave it out")
    return value
