import json

import pytest

from belljar.discovery import ToolNotFoundError
from tests.discovery.machines import SECRET, PlayedMachine

REMEDY = "name the host instead: presets: [{rust: registry.corp.example}] in a policy, or --allow registry.corp.example"


@pytest.fixture
def cargo(played):
    played.install("cargo", f"echo run >{played.root}/traces")
    return played


def cache(played: PlayedMachine, name: str, **config: str) -> None:
    played.write(f"~/.cargo/registry/index/{name}/config.json", json.dumps(config))


def test_registries_that_are_configured(cargo):
    cargo.write(
        "~/.cargo/config.toml",
        f"""
        [source.public]
        replace-with = "mirror"
        registry = "https://unused.corp.example/index"
        [source.mirror]
        registry = "sparse+https://me:{SECRET}@mirror.corp.example:8443/index/"
        [source.vendored]
        directory = "vendor"
        [registries.corp]
        index = "registry+http://crates.corp.example/git/index"
        [registries.by-ssh]
        index = "ssh://git@git.corp.example/index"
        [registries]
        odd = 7
        """,
    )
    cargo.env["CARGO_REGISTRIES_OTHER_INDEX"] = "sparse+https://other.corp.example/"
    assert cargo.hosts("rust") == [
        ("crates.corp.example", 80, "cargo's registry corp"),
        ("mirror.corp.example", 8443, "cargo's source mirror"),
        ("other.corp.example", 443, "cargo's CARGO_REGISTRIES_OTHER_INDEX"),
    ]


def test_registries_that_were_used(cargo):
    cache(
        cargo,
        "index.corp.example-0123456789abcdef",
        dl=f"https://me:{SECRET}@files.corp.example/{{crate}}/{{version}}",
        api="https://corp.example",
    )
    why = "cargo's cache of index.corp.example"
    assert cargo.hosts("rust") == [
        ("corp.example", 443, why),
        ("files.corp.example", 443, why),
        ("index.corp.example", 443, why),
    ]


def test_clones_and_foreign_directories_in_the_cache_name_no_host(cargo):
    cargo.write("~/.cargo/registry/index/git.corp.example-0123456789abcdef/.git/HEAD", "ref: x")
    cache(cargo, "strange.corp.example", dl="https://files.corp.example")
    cargo.write("~/.cargo/registry/index/empty.corp.example-0123456789abcdef/config.json", "")
    with pytest.raises(ToolNotFoundError) as caught:
        cargo.discover("rust")
    assert str(caught.value) == f"no host is named in cargo's configuration and cache; {REMEDY}"


def test_a_replaced_source_leaves_the_rest_of_the_cache_out(cargo):
    """What was used before the mirror was configured is not in use any more; where the mirror's files are, is."""
    cache(cargo, "public.corp.example-0123456789abcdef", dl="https://public-files.corp.example")
    cache(cargo, "mirror.corp.example-fedcba9876543210", dl="http://mirror-files.corp.example")
    cargo.write(
        "~/.cargo/config.toml",
        """
        source.public.replace-with = "mirror"
        source.mirror.registry = "sparse+https://mirror.corp.example:8443/"
        """,
    )
    assert cargo.hosts("rust") == [
        ("mirror-files.corp.example", 80, "cargo's cache of mirror.corp.example"),
        ("mirror.corp.example", 8443, "cargo's source mirror"),
    ]


def test_the_old_name_of_the_file_comes_first(cargo):
    cargo.env["CARGO_HOME"] = str(cargo.home / ".local/cargo")
    cargo.write("~/.local/cargo/config", 'registries.a.index = "https://old.corp.example"')
    cargo.write("~/.local/cargo/config.toml", 'registries.a.index = "https://new.corp.example"')
    assert cargo.hosts("rust") == [("old.corp.example", 443, "cargo's registry a")]


def test_cargo_itself_is_not_run(cargo):
    with pytest.raises(ToolNotFoundError):
        cargo.discover("rust")
    assert not (cargo.root / "traces").exists()


def test_cargo_is_not_installed(played):
    played.write("~/.cargo/config.toml", 'registries.a.index = "https://a.corp.example"')
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("rust")
    assert str(caught.value) == f"cargo is not installed here, so its registry cannot be asked for; {REMEDY}"


@pytest.mark.parametrize(
    ("path", "content", "problem"),
    [
        ("~/.cargo/config.toml", f"[source\n{SECRET}", "is not valid TOML"),
        ("~/.cargo/registry/index/a-0123456789abcdef/config.json", SECRET, "is not the JSON it should be"),
    ],
    ids=["configuration", "cache"],
)
def test_a_file_that_cannot_be_read_is_named(cargo, path, content, problem):
    written = cargo.write(path, content)
    with pytest.raises(ToolNotFoundError) as caught:
        cargo.discover("rust")
    assert str(caught.value) == f"{written} {problem}, so its registry cannot be asked for; {REMEDY}"
