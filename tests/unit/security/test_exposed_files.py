"""Files with keys that others can read are found, also those of one listener."""

from bowstring.engine.security.exposed_files import exposed_files


def test_files_that_others_can_read(tmp_path):
    safe, group, open_ = (tmp_path / name for name in ("safe.pem", "group.pem", "open.pem"))
    for path, mode in ((safe, 0o600), (group, 0o640), (open_, 0o644)):
        path.write_text("key")
        path.chmod(mode)
    settings = {
        "ssl.keystore.location": str(safe),
        "listener.name.a.ssl.keystore.location": f" {open_} ",
        "listener.name.b.ssl.keystore.location": str(group),
        "listener.name.c.ssl.keystore.location": str(tmp_path / "missing.pem"),
        "ssl.truststore.location": str(open_),
    }
    assert exposed_files(settings) == {"listener.name.a.ssl.keystore.location": str(open_)}
    assert exposed_files({}) == {}


def test_keytabs_that_others_can_read(tmp_path):
    keytab = tmp_path / "kafka.keytab"
    keytab.touch()
    line = f'a.Krb5LoginModule required useKeyTab=true keyTab="{keytab}" principal=x;'
    settings = {
        "listener.name.a.gssapi.sasl.jaas.config": line,
        "listener.name.b.sasl.jaas.config": "malformed",
    }
    for mode, found in ((0o600, {}), (0o644, {"listener.name.a.gssapi.sasl.jaas.config": str(keytab)})):
        keytab.chmod(mode)
        assert exposed_files(settings) == found
