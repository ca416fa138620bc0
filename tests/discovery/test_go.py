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
    played.install_go(f"GOPROXY={proxy}", f"GOSUMDB={database}")
    assert played.hosts("go") == expected


@pytest.mark.parametrize("defaults", [("GOPROXY=off", "GOSUMDB=off"), ("GOPROXY=direct",), (), ("GOPROXY",)])
def test_no_host_at_all(played, defaults):
    played.install_go(*defaults)
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("go")
    assert str(caught.value) == (
        "no host is named in go's GOPROXY and GOSUMDB; name the host instead: "
        "presets: [{go: registry.corp.example}] in a policy, or --allow registry.corp.example"
    )


def test_variables_come_before_the_settings_of_the_user_and_these_before_the_defaults(played):
    played.install_go("GOPROXY=https://default.corp.example", "GOSUMDB=sum.corp.example")
    settings = played.write("~/.config/go/env", "GOPROXY=https://mine.corp.example,direct\nGOSUMDB=\n")
    assert [host for host, _, _ in played.hosts("go")] == ["mine.corp.example", "sum.corp.example"]
    played.env["GOPROXY"] = "https://now.corp.example"
    assert [host for host, _, _ in played.hosts("go")] == ["now.corp.example", "sum.corp.example"]
    del played.env["GOPROXY"]
    played.env["GOENV"] = "off"
    assert [host for host, _, _ in played.hosts("go")] == ["default.corp.example", "sum.corp.example"]
    played.env["GOENV"] = str(settings.rename(played.home / ".config/other"))
    assert [host for host, _, _ in played.hosts("go")] == ["mine.corp.example", "sum.corp.example"]


def test_a_version_that_has_its_defaults_in_its_source(played):
    played.install_go()
    played.write(
        "usr/local/go/src/cmd/go/internal/cfg/cfg.go",
        """GOPROXY = envOr("GOPROXY", "https://old.corp.example,direct")\nGOSUMDB = envOr("GOSUMDB", "off")""",
    )
    assert played.hosts("go") == [("old.corp.example", 443, "go's GOPROXY")]


def test_go_itself_is_not_run(played):
    played.install_go("GOPROXY=https://default.corp.example")
    played.discover("go")
    assert not (played.root / "traces").exists()


def test_go_is_not_installed(played):
    with pytest.raises(ToolNotFoundError, match=r"^go is not installed here, so its module proxy cannot be asked"):
        played.discover("go")
