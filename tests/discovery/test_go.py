import json

import pytest

from belljar.discovery import ToolNotFoundError
from tests.discovery.machines import SECRET


@pytest.mark.parametrize(
    ("proxy", "database", "expected"),
    [
        (
            "https://proxy.corp.example,direct",
            "sum.corp.example",
            [("proxy.corp.example", 443, "go's GOPROXY"), ("sum.corp.example", 443, "go's GOSUMDB")],
        ),
        (
            f"https://me:{SECRET}@a.corp.example|http://b.corp.example:8081/go , file:///srv/go|off",
            "off",
            [("a.corp.example", 443, "go's GOPROXY"), ("b.corp.example", 8081, "go's GOPROXY")],
        ),
        ("direct", "sum.corp.example+ab12+Key=", [("sum.corp.example", 443, "go's GOSUMDB")]),
        (
            "off",
            "sum.corp.example+ab12+Key= https://mirror.corp.example:8443/sumdb",
            [("mirror.corp.example", 8443, "go's GOSUMDB")],
        ),
        ("", "corp.example/sumdb+ab12+Key=", [("corp.example", 443, "go's GOSUMDB")]),
        (
            "https://corp.example",
            "corp.example",
            [("corp.example", 443, "go's GOPROXY, go's GOSUMDB")],
        ),
    ],
    ids=["usual", "several proxies", "with key", "with URL", "with path", "one for both"],
)
def test_proxies_and_checksum_database(played, proxy, database, expected):
    played.install_saying("go", json.dumps({"GOPROXY": proxy, "GOSUMDB": database}))
    assert played.hosts("go") == expected


@pytest.mark.parametrize("answer", [{"GOPROXY": "off", "GOSUMDB": "off"}, {"GOPROXY": "direct"}, {}, {"GOPROXY": 1}])
def test_no_host_at_all(played, answer):
    played.install_saying("go", json.dumps(answer))
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("go")
    assert str(caught.value) == (
        "no host is named in go's GOPROXY and GOSUMDB; name the host instead: presets: [{go: registry.corp.example}]"
    )


def test_go_is_not_installed(played):
    with pytest.raises(ToolNotFoundError, match=r"^go is not installed here, so its module proxy cannot be asked"):
        played.discover("go")
