"""Settings: what can be written, what cannot, and what is never shown."""

import base64
import pickle
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from belljar.errors import BelljarError
from belljar.gateway.settings import DEFAULTS, Exceptions, SettingError, read_settings, unused_proxy
from belljar.gateway.upstream.hostfiles import Server
from belljar.gateway.upstream.proxyurl import UpstreamProxy, parse_proxy
from belljar.names import SpellingError


def test_by_default_there_is_no_proxy_and_the_hosts_own_resolver():
    assert read_settings({}) == DEFAULTS
    assert (DEFAULTS.resolvers, DEFAULTS.proxy, DEFAULTS.proxy_resolves) == ((), None, False)


def test_settings_are_read_from_the_environment_and_a_resolver_that_is_given_outright_wins():
    environment = {
        "BELLJAR_RESOLVER": "192.0.2.53, [2001:db8::53]:5353",
        "BELLJAR_UPSTREAM_PROXY": "http://proxy.corp.example:3128",
        "BELLJAR_NO_PROXY": "corp.example,10.0.0.0/8",
        "BELLJAR_PROXY_RESOLVES": "yes",
    }
    read = read_settings(environment)
    assert read.resolvers == (Server(ip_address("192.0.2.53"), 53), Server(ip_address("2001:db8::53"), 5353))
    assert read.proxy == UpstreamProxy("proxy.corp.example", 3128)
    assert read.exceptions == Exceptions(domains=("corp.example",), ranges=(ip_network("10.0.0.0/8"),))
    assert read.proxy_resolves

    assert read_settings(environment, resolver="192.0.2.1:54").resolvers == (Server(ip_address("192.0.2.1"), 54),)


WRONG = {
    "a resolver by name": ("BELLJAR_RESOLVER", "dns.example", '"dns.example" is a name'),
    "a resolver's port": ("BELLJAR_RESOLVER", "192.0.2.53:0", "port '0'"),
    "one of two resolvers": ("BELLJAR_RESOLVER", "192.0.2.53,127.1", '"127.1" is not an IPv4 address'),
    "an empty list of resolvers": ("BELLJAR_RESOLVER", " , ", "is empty"),
    "an empty proxy": ("BELLJAR_UPSTREAM_PROXY", "", "write http://HOST:PORT"),
    "a port as an exception": ("BELLJAR_NO_PROXY", "corp.example:8080", '"corp.example:8080"'),
    "host bits": ("BELLJAR_NO_PROXY", "10.1.0.0/8", 'did you mean "10.0.0.0/8"'),
    "a star in the middle": ("BELLJAR_NO_PROXY", "a.*.example", '"a.*.example" contains'),
    "a star before a name": ("BELLJAR_NO_PROXY", "*corp.example", '"*corp.example" contains'),
    "a short address": ("BELLJAR_NO_PROXY", "127.1", '"127.1" is not an IPv4 address'),
    "an empty list of exceptions": ("BELLJAR_NO_PROXY", "", "is empty"),
    "neither yes nor no": ("BELLJAR_PROXY_RESOLVES", "perhaps", '"perhaps" is neither yes nor no'),
}


@pytest.mark.parametrize(("variable", "value", "message"), WRONG.values(), ids=WRONG)
def test_an_error_names_the_setting_and_what_is_wrong_with_it(variable, value, message):
    with pytest.raises(SettingError) as caught:
        read_settings({variable: value})
    assert isinstance(caught.value, BelljarError)
    assert str(caught.value).startswith(f"{variable}: ")
    assert message in str(caught.value)


def test_an_error_in_what_was_given_outright_names_the_flag():
    with pytest.raises(SettingError, match=r"^--resolver: "):
        read_settings({"BELLJAR_RESOLVER": "192.0.2.53"}, resolver="dns.example")


class TestProxyUrl:
    @pytest.mark.parametrize(
        ("credentials", "meant"),
        [
            ("cat:secret", "cat:secret"),
            ("cat", "cat:"),
            ("cat:", "cat:"),
            ("c%40t:a%2Fb%3Ac%25", "c@t:a/b:c%"),
            ("cat:a:b", "cat:a:b"),
            ("k%C3%A4tzchen:%F0%9F%90%88", "kätzchen:🐈"),
        ],
    )
    def test_credentials_are_percent_decoded(self, credentials, meant):
        proxy = parse_proxy(f"http://{credentials}@proxy.corp.example:3128")
        assert (proxy.host, proxy.port) == ("proxy.corp.example", 3128)
        assert proxy.authorization == "Basic " + base64.b64encode(meant.encode()).decode()

    @pytest.mark.parametrize("url", ["http://[::1]:80", "http://[::1]:80/", "HTTP://[0:0::1]:80"])
    def test_it_may_be_an_address(self, url):
        assert parse_proxy(url) == UpstreamProxy(ip_address("::1"), 80)

    @pytest.mark.parametrize(
        "url",
        ["proxy.corp.example:3128", "https://proxy.corp.example:3128", "socks5://proxy.corp.example:1080",
         "http://proxy.corp.example", "http://proxy.corp.example:", "http://proxy.corp.example:0", "http://:3128",
         "http://proxy.corp.example:3128/path", "http://proxy.corp.example:3128?x", "http://2001:db8::1:3128",
         "http://0.0.0.0:3128", "http://127.1:3128", "http://@proxy.corp.example:3128", "http://p\r\n.example:80",
         "http://a/b@proxy.corp.example:3128", "http://a@b@proxy.corp.example:3128", "http://a b@p.example:3128",
         "http://a%0d%0ax:b@p.example:3128", "http://a%3Ab:c@p.example:3128", "http://%ff@p.example:3128",
         "http://a%zz@p.example:3128"],
    )  # fmt: skip
    def test_anything_else_is_refused(self, url):
        with pytest.raises(SpellingError):
            parse_proxy(url)

    @given(st.from_regex(r"(?:http://)?cat:hunter2[@/: %]?[a-z./:%@ ]{0,20}", fullmatch=True))
    @example("http://cat:hunter2")
    @example("http://proxy.corp.example:hunter2")
    @example("hunter2")
    @example("http://cat:hunter2@proxy.corp.example:3128")
    def test_a_password_is_never_shown(self, url):
        try:
            shown = repr(read_settings({"BELLJAR_UPSTREAM_PROXY": url}))
        except SettingError as error:
            shown = f"{error} {error!r} {error.__cause__!r}"
        assert "hunter2" not in shown
        assert base64.b64encode(b"cat:hunter2").decode() not in shown

    def test_settings_can_be_handed_to_another_process(self):
        settings = read_settings(
            {"BELLJAR_UPSTREAM_PROXY": "http://cat:secret@proxy.corp.example:3128", "BELLJAR_NO_PROXY": "a.example"}
        )
        assert pickle.loads(pickle.dumps(settings)) == settings


EXCEPTIONS = {
    "the name itself": ("corp.example", "corp.example", True),
    "below a name": ("corp.example", "git.corp.example", True),
    "with a dot in front": (".corp.example", "corp.example", True),
    "with a star in front": ("*.corp.example", "git.corp.example", True),
    "in upper case": ("Corp.Example.", "git.corp.example", True),
    "a name that ends in a digit": ("db1.corp.example2", "a.db1.corp.example2", True),
    "a name that ends alike": ("corp.example", "notcorp.example", False),
    "above a name": ("git.corp.example", "corp.example", False),
    "an address": ("192.0.2.7", "192.0.2.7", True),
    "another address": ("192.0.2.7", "192.0.2.8", False),
    "a range": ("10.0.0.0/8,2001:db8::/32", "2001:db8::1", True),
    "outside of a range": ("10.0.0.0/8", "2001:db8::1", False),
    "everything, a name": ("*", "plain.test", True),
    "everything, an address": ("a.example, *", "192.0.2.8", True),
}


@pytest.mark.parametrize(("written", "destination", "covered"), EXCEPTIONS.values(), ids=EXCEPTIONS)
def test_exceptions(written, destination, covered):
    exceptions = read_settings({"BELLJAR_NO_PROXY": written}).exceptions
    try:
        found = exceptions.cover_address(ip_address(destination))
    except ValueError:
        found = exceptions.cover_name(destination)
    assert found is covered


class TestTheHostsOwnVariables:
    @pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
    def test_they_are_not_used_and_the_user_is_told(self, name):
        environment = {name: "http://cat:hunter2@proxy.corp.example:3128", "NO_PROXY": "*"}
        settings = read_settings(environment)
        told = unused_proxy(environment, settings)
        assert settings == DEFAULTS
        assert told is not None
        assert name in told
        assert "BELLJAR_UPSTREAM_PROXY" in told
        assert "hunter2" not in told

    def test_nobody_is_told_who_has_chosen(self):
        chosen = {"HTTPS_PROXY": "http://a.example:1", "BELLJAR_UPSTREAM_PROXY": "http://b.example:1"}
        assert unused_proxy(chosen, read_settings(chosen)) is None
        assert unused_proxy({}, DEFAULTS) is None
