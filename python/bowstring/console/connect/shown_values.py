"""Says what of a value of a config may be shown: addresses and connection strings lose their secrets."""

from __future__ import annotations

import re

HIDDEN = "[hidden]"
"""Stands for a secret; in a config that is sent it means: as it was."""
MARKED = re.compile(
    r"passw|passphrase|passcode|pwd|secret|credential|token|bearer|basic |authoriz|jaas|private|begin "
    r"|(?:api|access|account|shared|signing|master|encryption|license|client)[ ._-]?key|shared.?access|sig="
    r"|\bAKIA|\beyJ|\bgh[pousr]_|\bxox[abeprs]-|\bglpat-|\bsk-",
    re.IGNORECASE,
)
"""What secrets have before or in them."""
_PLAIN = re.compile(r"[\w .,/\\*$%()\[\]|^+?~<>!#-]*")
_UUID = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
_HOST = r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?"
HOSTS = re.compile(rf"{_HOST}(?: ?, ?{_HOST})*")
"""Hosts with or without ports."""
_ADDRESS = re.compile(
    r"(?P<scheme>jdbc:[a-z0-9+-]{1,20}:(?:(?:thin|oci|mem|file|tcp|replication|loadbalance|mysql|postgresql):)?"
    r"|(?=[a-z0-9+.-]{1,30}://)[a-z][a-z0-9+.-]*:)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SID = re.compile(r":[A-Za-z]\w{0,29}$")
_FILES = ("file:", "s3:", "s3a:", "gs:", "hdfs:", "abfs:", "abfss:")
_HTTP_WORDS = re.compile(r"apis?|rest|ccompat|registry|connect|subjects|schemas|topics|v\d{1,2}")
_DATABASE = re.compile(r"[A-Za-z][\w$-]{0,62}")
_PAIR = re.compile(r"[A-Za-z][\w .-]{0,40}=")
_HARMLESS_KEYS = re.compile(
    r"(?:account)?endpoint|endpointsuffix|defaultendpointsprotocol|database|databasename|db|host|server|port"
    r"|encrypt|ssl|sslmode|usessl|trustservercertificate",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


def looks_random(text: str) -> bool:
    """Whether some part of a text looks like a key that a machine has made."""
    if _UUID.search(text):
        return True
    for run in re.findall(r"[A-Za-z0-9]{16,}", text):
        if len(run) >= 40 or (len(re.findall("[0-9]", run)) >= 3 and re.search("[A-Za-z]", run)):
            return True
    return any(
        all(re.search(kind, run) for kind in ("[A-Z]", "[a-z]", "[0-9]"))
        for run in re.findall(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+_-][A-Za-z0-9+/=_-]{19,}", text)
    )


def shown_address(value: str) -> str:
    """Returns an address with its scheme, hosts and database; HIDDEN for a value that is none.

    User and password, parameters and unknown parts of paths are hidden; everything behind the scheme where
    it is not sure what is what.
    """
    found = _ADDRESS.fullmatch(value)
    if found is None:
        return HIDDEN
    if "," in value and not re.search(r"[@?;&=#\s]", value) and value.count("://") > 1:
        return ",".join(shown_address(each) for each in value.split(","))
    scheme, rest = found["scheme"], found["rest"]
    slashes = "//" if rest.startswith("//") else ""
    before, at, behind = rest[len(slashes) :].rpartition("@")
    if at:
        # Whoever has "/" or "?" before the last "@" has it in a password, or an "@" in a path: who knows.
        is_oracle = scheme.lower().startswith("jdbc:oracle:") and not slashes and before.count("/") <= 1
        if re.search(r"[?;#&=\s]" if is_oracle else r"[/?;#&=\s]", before):
            return f"{scheme}{slashes}{HIDDEN}"
        if is_oracle and behind.startswith("//"):
            at, behind = "@//", behind[2:]
    cut = re.search(r"[/?;#&]", behind)
    place = behind[: cut.start()] if cut else behind
    tail = _shown_tail(scheme.lower(), behind[cut.start() :]) if cut else ""
    if sid := _SID.search(place):
        place, tail = place[: sid.start()] if at else "", HIDDEN
    sure = HOSTS.fullmatch(place) or (not place and scheme.lower().startswith((*_FILES, "jdbc:")))
    if not sure or MARKED.search(place) or looks_random(place):
        return f"{scheme}{slashes}{HIDDEN}"
    return f"{scheme}{slashes}{HIDDEN if before else ''}{at}{place}{tail}"


def _shown_tail(scheme: str, text: str) -> str:
    """Returns what is shown of an address behind its hosts."""
    path, mark, pairs = re.fullmatch(r"([^?;#&]*)(.?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return _shown_path(scheme, path) + (mark + _shown_pairs(pairs) if mark else "")


def _shown_path(scheme: str, path: str) -> str:
    if not path.strip("/"):
        return path
    if scheme.startswith(_FILES):
        return path if is_plain(path) else f"/{HIDDEN}"
    if not scheme.startswith(("http", "ws")):
        name = path[1:]
        return path if _DATABASE.fullmatch(name) and is_plain(name) else f"/{HIDDEN}"
    shown: list[str] = []
    for each in path[1:].split("/"):
        if each and not _HTTP_WORDS.fullmatch(each):
            return "/".join(["", *shown, HIDDEN])
        shown.append(each)
    return "/".join(["", *shown])


def _shown_pairs(text: str) -> str:
    """Returns pairs with harmless names and simple values; HIDDEN stands for all others between two."""
    shown: list[str] = []
    for mark, pair in re.findall(r"(^|[;&,])([^;&,]*)", text):
        if not pair:
            continue
        name, _, value = pair.partition("=")
        fine = _HARMLESS_KEYS.fullmatch(name.strip())
        if fine and _ADDRESS.fullmatch(value):
            shown.append(f"{mark}{name}={shown_address(value)}")
        elif fine and _WORD.fullmatch(value) and is_plain(value):
            shown.append(mark + pair)
        elif not shown or not shown[-1].endswith(HIDDEN):
            shown.append(mark + HIDDEN)
    return "".join(shown)


def is_plain(value: str) -> bool:
    """Whether a text has neither markers of secrets nor anything that needs more than words."""
    return bool(_PLAIN.fullmatch(value)) and not MARKED.search(value) and not looks_random(value)


def shown_text(value: str) -> str:
    """Returns what is shown of a value that nothing but its text says anything about."""
    if _ADDRESS.fullmatch(value):
        return shown_address(value)
    if _PAIR.match(value):
        return _shown_pairs(value)
    return value if is_plain(value) else HIDDEN
