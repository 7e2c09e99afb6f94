"""Contexts without Kerberos: their tokens say what they are."""

from bowstring.security.kerberos import KerberosError


class FakeContext:
    """One side of a context that is established when it has taken all of `expected`.

    Args:
        expected: The other side's tokens.
        answers: What is answered to each.
        error: Raised in the place of the first answer.
        peer: The client's principal.
    """

    def __init__(self, expected, answers, *, error=None, peer="alice@REALM.COM"):
        self.expected, self.answers = list(expected), list(answers)
        self.error = error
        self.peer = peer

    @property
    def is_complete(self):
        return not self.expected

    def step(self, token):
        if self.error is not None:
            raise self.error
        if self.is_complete or token != self.expected.pop(0):
            raise KerberosError("Invalid token was supplied")
        return self.answers.pop(0)

    def wrap(self, message):
        return b"<" + message + b">"

    def unwrap(self, message):
        if message[:1] + message[-1:] != b"<>":
            raise KerberosError("A token had an invalid Message Integrity Check (MIC)")
        return message[1:-1]
