"""Checks tokens (JWT) of an identity provider: signature, issuer, audience, times, subject."""

from collections.abc import Mapping
from typing import Any, Final

from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import listener_value
from bowstring.engine.security.sasl_oauthbearer import Bearer, TokenRefusedError
from bowstring.engine.security.signing_keys import SigningKeys

OAUTHBEARER: Final = "OAUTHBEARER"
# Signatures with private keys. Never `none`, nor those with a secret that who checks could sign with.
_ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
_CLOCKS: Final = "or the clocks differ by more than sasl.oauthbearer.clock.skew.seconds"
_REASONS: Final = {
    "ExpiredSignatureError": f"it has expired, {_CLOCKS}",
    "ImmatureSignatureError": f"it is not valid yet, {_CLOCKS}",
    "InvalidAudienceError": "its audience is not in sasl.oauthbearer.expected.audience",
    "InvalidIssuerError": "its issuer is not sasl.oauthbearer.expected.issuer",
    "InvalidSignatureError": "its signature is wrong",
    "MissingRequiredClaimError": "a claim that is needed is missing (exp, iat, sub, aud or iss)",
    "DecodeError": "it is no JWT",
}
_TOKEN_MAX: Final = 64 << 10
_LONG_MAX: Final = (1 << 63) - 1


class JwtValidator:
    """The check of a listener's tokens.

    Raises:
        ConfigError: A config or a Python package is missing, or the keys in a file cannot be read.
    """

    def __init__(self, configs: BrokerConfigs, listener: str) -> None:
        try:
            import jwt
            import jwt.algorithms

            if not jwt.algorithms.has_crypto:
                raise ImportError("cryptography")
        except ImportError:
            raise ConfigError(
                f"listener {listener} offers OAUTHBEARER, which needs packages that are not installed; run: "
                "pip install 'bowstring[security]'"
            ) from None
        self._jwt: Any = jwt
        self._configs, self._listener = configs, listener
        self._issuer = self._checked("issuer")
        self._audience = self._checked("audience")
        self._skew_s = self._value("clock.skew.seconds")
        self._subject = self._value("sub.claim.name")
        self._scope = self._value("scope.claim.name")
        url = self._value("jwks.endpoint.url")
        if not url:
            raise ConfigError(
                f"listener {listener} offers OAUTHBEARER; set sasl.oauthbearer.jwks.endpoint.url to the "
                "signing keys of the identity provider, https://… or file:///…"
            )
        if url.lower().startswith("http:"):
            event_log.warning(
                "the signing keys of the identity provider come over a connection that is not encrypted, so "
                "whoever is on the way can let anyone in as anyone; use https",
                url=url,
            )
        try:
            self.keys = SigningKeys(
                url,
                self._parsed,
                refresh_s=self._value("jwks.endpoint.refresh.ms") / 1000,
                retry_s=self._value("jwks.endpoint.retry.backoff.ms") / 1000,
                retry_max_s=self._value("jwks.endpoint.retry.backoff.max.ms") / 1000,
            )
            self.keys.read()
        except (OSError, ValueError) as error:
            if not url.startswith("https:") and not url.startswith("http:"):
                reason = getattr(getattr(error, "reason", None), "strerror", None) or error
                raise ConfigError(
                    f"listener {listener}: sasl.oauthbearer.jwks.endpoint.url={url} cannot be read: "
                    f"{reason}; name a file with the provider's keys (JWKS) that this node may read"
                ) from None
            event_log.error(
                "the signing keys of the identity provider cannot be read, so its tokens are refused until "
                "then; trying again",
                url=url,
                detail=str(error),
            )
        self.keys.start()

    def _value(self, name: str) -> Any:
        return listener_value(
            self._configs, self._listener, f"sasl.oauthbearer.{name}", mechanism=OAUTHBEARER
        )

    def _checked(self, what: str) -> Any:
        expected = self._value(f"expected.{what}")
        if not expected and not self._value(f"allow.unverified.{what}"):
            raise ConfigError(
                f"listener {self._listener} offers OAUTHBEARER; set sasl.oauthbearer.expected.{what}, or "
                f"accept tokens for others with sasl.oauthbearer.allow.unverified.{what}=true"
            )
        return expected or None

    def _parsed(self, document: Any) -> Mapping[str, Any]:
        found = {}
        for each in document["keys"] if isinstance(document, dict) and "keys" in document else ():
            try:
                key = self._jwt.PyJWK.from_dict(each)
            except (self._jwt.PyJWTError, ValueError, TypeError, KeyError):
                continue  # of another kind, or for other uses
            if key.algorithm_name in _ALGORITHMS:
                found[str(each.get("kid", ""))] = key
        if not found:
            raise ValueError("the document has no keys for signatures")
        return found

    def validated(self, token: str) -> Bearer:
        """Returns the claims of a token.

        Raises:
            TokenRefusedError: It is not valid.
        """
        if len(token) > _TOKEN_MAX:
            raise TokenRefusedError("the token is too long")
        jwt = self._jwt
        try:
            header = jwt.get_unverified_header(token)
            key = self._key(header)
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._skew_s,
                options={
                    "require": ["exp", "iat", self._subject],
                    "verify_aud": self._audience is not None,
                    "verify_iss": self._issuer is not None,
                    "verify_sub": self._subject == "sub",
                },
            )
            name, scope = claims[self._subject], claims.get(self._scope, "")
            expires_ms = int(claims["exp"]) * 1000
        # RecursionError: clients choose how deep a header is.
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            kind = type(error).__name__
            raise TokenRefusedError(_REASONS.get(kind, kind)) from None
        if not isinstance(name, str) or not name.strip() or not isinstance(scope, str | list):
            raise TokenRefusedError("a claim has no value that can be used")
        return Bearer(name, min(expires_ms, _LONG_MAX))

    def _key(self, header: Mapping[str, Any]) -> Any:
        keys = self.keys.keys
        id = header.get("kid")
        key = keys.get(str(id)) if id is not None else next(iter(keys.values())) if len(keys) == 1 else None
        if key is None:
            self.keys.refresh_soon()
            raise TokenRefusedError("the token's key is unknown")
        if header.get("alg") != key.algorithm_name:
            raise TokenRefusedError("the token's algorithm is not that of its key")
        return key

    def close(self) -> None:
        """Ends the thread that reads keys."""
        self.keys.close()
