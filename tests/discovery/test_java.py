import io
import zipfile

import pytest

from belljar.discovery import ToolNotFoundError
from tests.discovery.machines import SECRET

REMEDY = "name the host instead: presets: [{java: registry.corp.example}] in a policy, or --allow registry.corp.example"
SUPER_POM = """\
<project>
  <repositories><repository><id>central</id><url>https://public.corp.example/maven</url></repository></repositories>
  <pluginRepositories>
    <pluginRepository><id>central</id><url>https://plugins.corp.example/maven</url></pluginRepository>
  </pluginRepositories>
</project>
"""


def jar(content: str, name: str = "org/apache/maven/model/pom-4.0.0.xml") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def settings(*mirrors: tuple[str, str, str, str], repositories: str = "") -> str:
    """Make a settings.xml; a mirror is its id, what it mirrors, its URL and what else it says."""
    text = "".join(
        f"<mirror><id>{name}</id><mirrorOf>{of}</mirrorOf><url>{url}</url>{more}</mirror>"
        for name, of, url, more in mirrors
    )
    return f"""<?xml version="1.0"?>
        <settings xmlns="urn:settings">
          <servers><server><id>corp</id><password>{SECRET}</password></server></servers>
          <mirrors>{text}</mirrors>
          <profiles><profile><repositories>{repositories}</repositories></profile></profiles>
        </settings>"""


@pytest.fixture
def maven(played):
    """Maven as it is usually installed: the program on the PATH is a link."""
    played.write("usr/share/maven/bin/mvn", "#!/bin/sh\n").chmod(0o755)
    (played.bin / "mvn").symlink_to(played.root / "usr/share/maven/bin/mvn")
    played.write("usr/share/maven/lib/maven-model-builder-3.9.9.jar", jar(SUPER_POM))
    return played


def test_without_settings_the_super_pom_counts(maven):
    assert maven.hosts("java") == [
        ("plugins.corp.example", 443, "Maven repository central"),
        ("public.corp.example", 443, "Maven repository central"),
    ]


@pytest.mark.parametrize("mirror_of", ["*", "central", "external:*", "other, central", "*,!other"])
def test_a_mirror_of_the_public_repository_takes_its_place(maven, mirror_of):
    url = f"https://me:{SECRET}@mirror.corp.example:8443/maven"
    maven.write("~/.m2/settings.xml", settings(("corp", mirror_of, url, "")))
    assert maven.hosts("java") == [("mirror.corp.example", 8443, "Maven mirror corp")]


@pytest.mark.parametrize("mirror_of", ["other", "*,!central", "external:http:*", ""])
def test_a_mirror_of_something_else_does_not(maven, mirror_of):
    maven.write("~/.m2/settings.xml", settings(("corp", mirror_of, "http://mirror.corp.example", "")))
    assert [host for host, _, _ in maven.hosts("java")] == [
        "mirror.corp.example",
        "plugins.corp.example",
        "public.corp.example",
    ]


def test_a_mirror_that_blocks_is_no_host(maven):
    blocker = ("blocker", "*", "http://0.0.0.0/", "<blocked>true</blocked>")
    maven.write("usr/share/maven/conf/settings.xml", settings(blocker))
    assert len(maven.hosts("java")) == 2


def test_settings_of_the_user_and_of_the_installation(maven):
    theirs = "<repository><id>corp</id><url>https://repo.corp.example/maven</url></repository>"
    maven.write("~/.m2/settings.xml", settings(repositories=theirs))
    maven.write("usr/share/maven/conf/settings.xml", settings(("m", "central", "http://m.corp.example", "")))
    assert maven.hosts("java") == [
        ("m.corp.example", 80, "Maven mirror m"),
        ("repo.corp.example", 443, "Maven repository corp"),
    ]


def test_maven_is_not_installed(played):
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover("java")
    assert str(caught.value) == f"mvn is not installed here, so its repositories cannot be asked for; {REMEDY}"


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", jar(SUPER_POM, name="other"), jar(SUPER_POM).replace(b"PK\3\4", b"PK\0\0")],
    ids=["empty", "garbage", "without a super POM", "corrupt"],
)
def test_a_jar_that_cannot_be_read(maven, content):
    maven.write("usr/share/maven/lib/maven-model-builder-3.9.9.jar", content)
    with pytest.raises(ToolNotFoundError) as caught:
        maven.discover("java")
    assert str(caught.value) == f"no host is named in the configuration of Maven; {REMEDY}"


def test_settings_with_entities_are_refused(maven):
    path = maven.write("~/.m2/settings.xml", '<!DOCTYPE s [<!ENTITY a "aaaa">]><settings>&a;</settings>')
    with pytest.raises(ToolNotFoundError) as caught:
        maven.discover("java")
    assert str(caught.value) == f"{path} is not valid XML, so its repositories cannot be asked for; {REMEDY}"
