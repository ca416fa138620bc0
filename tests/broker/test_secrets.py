"""Where keys come from, and where they do not go."""

import os
import pickle
import traceback
from pathlib import Path

import pytest

from belljar.broker.requirements import check_brokers
from belljar.broker.secrets import Secret, SecretError, Secrets, references, resolve_all
from belljar.broker.secretsfile import UserFileError, place_of, read_mapping
from belljar.linux.files import usersfiles
from belljar.policy.services import Budget, SharedBudget
from tests.broker.running import KEY, Running, answer_of, service
from tests.broker.standin import Call, StandIn


def refers(value: str = "Bearer ${TOKEN}"):
    return service("https://api.test", "own", header=(("authorization", value),))


def resolved(environ: dict[str, str], value: str = "Bearer ${TOKEN}") -> str:
    return Secrets(environ).headers_of(refers(value))[0][1].reveal()


@pytest.fixture
def secrets(tmp_path: Path):
    """Return what writes a file of secrets, and the environment that leads to it."""

    def write(text: str, mode: int = 0o600) -> dict[str, str]:
        path = tmp_path / "secrets.yaml"
        path.write_text(text)
        path.chmod(mode)
        return {"BELLJAR_SECRETS": str(path), "TOKEN": "of-the-environment"}

    return write


def test_a_reference_is_a_variable_where_the_broker_runs():
    assert resolved({"TOKEN": "t"}) == "Bearer t"
    assert resolved({"A": "1", "B": "2"}, "${A}-${B}") == "1-2"
    assert resolved({}, "plain $HOME ${not a name}") == "plain $HOME ${not a name}"
    assert references(refers("${A} ${B}")) == ("A", "B")


def test_variables_of_our_own_are_nobodys_secret(secrets):
    """A policy could otherwise have the token of a server sent to whom it likes."""
    with pytest.raises(SecretError, match="stands for nothing"):
        resolved({"BELLJAR_TOKEN": "of-a-server"}, "${BELLJAR_TOKEN}")
    named = {**secrets("BELLJAR_TOKEN: {env: TOKEN}"), "BELLJAR_TOKEN": "of-a-server"}
    assert resolved(named, "${BELLJAR_TOKEN}") == "of-the-environment"


def test_a_value_is_not_looked_into():
    assert resolved({"TOKEN": "${OTHER}", "OTHER": "x"}) == "Bearer ${OTHER}"


def test_the_users_file_comes_first(secrets, tmp_path: Path):
    (tmp_path / "key").write_text("of-the-file\n")
    assert resolved(secrets("TOKEN: {env: OTHER}") | {"OTHER": "o"}) == "Bearer o"
    assert resolved(secrets(f"TOKEN: {{file: {tmp_path / 'key'}}}")) == "Bearer of-the-file"
    assert resolved(secrets("TOKEN: {command: [printf, of-the-command]}")) == "Bearer of-the-command"
    assert resolved(secrets("OTHER: {env: X}")) == "Bearer of-the-environment"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("TOKEN: {env: UNSET}", "UNSET"),
        ("TOKEN: {file: /nonexistent/key}", "/nonexistent/key"),
        ("TOKEN: {command: [/bin/false]}", "exit status 1"),
        ("TOKEN: {command: [no-such-program-here]}", "not installed"),
        ("TOKEN: {command: printf}", "none of"),
        ("TOKEN: {shell: x}", "none of"),
        ("TOKEN: {env: A, file: B}", "none of"),
        ("TOKEN: plain", "none of"),
        ("TOKEN: {env: A}\nTOKEN: {env: B}", "each name once"),
        ("[", "YAML"),
    ],
)
def test_what_stands_for_nothing_is_an_error(secrets, text: str, words: str):
    with pytest.raises(SecretError, match=r"\$\{TOKEN\}") as error:
        resolved(secrets(text))
    assert words in str(error.value)


@pytest.mark.parametrize("value", ["a\nb", "a\r\nx: y", "a\0", "ä", " ", "a "])
def test_what_cannot_be_a_header_is_none_and_is_not_shown(value: str):
    with pytest.raises(SecretError) as error:
        resolved({"TOKEN": value})
    assert repr(value)[1:-1] not in str(error.value).replace(" ", "") or not value.strip()


def test_a_missing_key_is_told_with_its_remedy():
    with pytest.raises(SecretError, match="set the variable TOKEN where Belljar runs"):
        resolve_all(refers(), {})
    resolve_all(refers(), {"TOKEN": "t"})


def test_an_empty_file_says_nothing(secrets):
    for text in ("", "# TOKEN: {env: A}\n"):
        assert resolved(secrets(text)) == "Bearer of-the-environment"


def test_a_budget_in_dollars_needs_prices_before_anything_runs(tmp_path: Path):
    prices = tmp_path / "prices.yaml"
    environ = {"TOKEN": "t", "BELLJAR_PRICES": str(prices)}
    shared = SharedBudget("group", Budget(dollars=1))
    for counting in (refers()._replace(budget=Budget(dollars=1)), refers()._replace(shared=shared)):
        for text, words in (("# none yet", "there is no price in"), ("m: 3", "needs input and output")):
            prices.write_text(text)
            prices.chmod(0o600)
            check_brokers([refers()], environ)
            with pytest.raises(UserFileError, match=words):
                check_brokers([counting], environ)
        prices.write_text("m: {input: 3, output: 15}")
        check_brokers([counting], environ)


def test_a_file_that_others_may_write_is_not_believed(secrets):
    with pytest.raises(SecretError, match="not trusted"):
        resolved(secrets("TOKEN: {command: [printf, x]}", 0o666))


def test_a_variable_of_others_does_not_lead_into_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(usersfiles, "home", lambda: tmp_path / "home")
    monkeypatch.setattr("belljar.broker.secretsfile.home", lambda: tmp_path / "home")
    project = tmp_path / "project" / "belljar"
    project.mkdir(parents=True)
    (project / "secrets.yaml").write_text("TOKEN: {command: [touch, /tmp/never]}")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "project")}
    with pytest.raises(UserFileError, match="where a sandbox can have written"):
        read_mapping("BELLJAR_SECRETS", environ)
    usual = tmp_path / "home" / ".config" / "belljar"
    usual.mkdir(parents=True)
    (usual / "secrets.yaml").write_text("TOKEN: {env: T}")
    assert place_of("BELLJAR_SECRETS", {}) == usual / "secrets.yaml"
    assert read_mapping("BELLJAR_SECRETS", {}) == {"TOKEN": {"env": "T"}}


def test_a_program_that_others_may_write_is_not_run(secrets, tmp_path: Path):
    program = tmp_path / "keeper"
    program.write_text("#!/bin/sh\necho key\n")
    program.chmod(0o777)
    with pytest.raises(SecretError, match="others can write"):
        resolved(secrets(f"TOKEN: {{command: [{program}]}}"))
    program.chmod(0o700)
    assert resolved(secrets(f"TOKEN: {{command: [{program}]}}")) == "Bearer key"


def test_a_command_sees_nothing_that_a_project_could_set(secrets):
    environ = secrets("TOKEN: {command: [env]}") | {"LD_PRELOAD": "/x.so", "PYTHONPATH": "/x", "PATH": "/project"}
    with pytest.raises(SecretError):
        resolved(environ)  # it has lines, so it can be no header
    shown = resolved(secrets('TOKEN: {command: [sh, -c, "echo $PATH-$LD_PRELOAD-$PYTHONPATH-$PWD"]}') | environ)
    assert "/x" not in shown
    assert "/project" not in shown
    assert shown.endswith("--/")


def test_a_secret_shows_itself_to_nobody():
    secret = Secret(KEY)
    assert KEY not in f"{secret!r} {secret} {[secret]} {{'a': {secret}}}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert KEY not in "".join(traceback.format_exception(ValueError(secret)))


def test_a_secret_is_read_again_when_the_provider_refuses_it(
    provider: StandIn, environ: dict[str, str], tmp_path: Path
):
    async def page(call: Call) -> None:
        await call.answer(b"{}", 200 if call.seen.header("x-api-key") == "new" else 401)

    (tmp_path / "key").write_text("old")
    (tmp_path / "secrets.yaml").write_text(f"ANTHROPIC_API_KEY: {{file: {tmp_path / 'key'}}}")
    provider.pages["/v1/messages"] = page
    running = Running(tmp_path, {**environ, "BELLJAR_SECRETS": str(tmp_path / "secrets.yaml")})
    try:
        used = service(provider.url)
        assert running.ask(used, body="{}").status == 401
        (tmp_path / "key").write_text("new")
        assert running.ask(used, body="{}").status == 200
        (tmp_path / "key").write_text("newer")
        assert running.ask(used, body="{}").status == 200  # which nobody has refused yet
    finally:
        running.stop()
        provider.pages.clear()


def test_a_command_is_run_once_for_many_who_wait(provider: StandIn, environ: dict[str, str], tmp_path: Path):
    """A keeper of passwords may ask its user, and a sandbox can send a thousand requests meanwhile."""
    script, runs, gate = tmp_path / "keeper", tmp_path / "runs", tmp_path / "gate"
    os.mkfifo(gate)
    script.write_text(f"#!/bin/sh\necho run >> {runs}\ncat {gate}\n")
    script.chmod(0o700)
    (tmp_path / "secrets.yaml").write_text(f"ANTHROPIC_API_KEY: {{command: [{script}]}}")
    running = Running(tmp_path, {**environ, "BELLJAR_SECRETS": str(tmp_path / "secrets.yaml")})
    waiting = [running.client(service(provider.url)) for _ in range(5)]
    try:
        for client in waiting:
            client.request("POST", "/v1/messages", "{}")
        other = service(provider.url, header=(("x-other", "plain"),))
        assert running.ask(other, body="{}").status == 200
        with gate.open("w") as answer:
            answer.write("the-key\n")
        assert [answer_of(client).status for client in waiting] == [200] * 5
        assert runs.read_text() == "run\n"
        assert provider.seen[-1].header("x-api-key") == "the-key"
    finally:
        for client in waiting:
            client.close()
        running.stop(kill=True)


def test_a_missing_key_is_an_answer(broker: Running, provider: StandIn):
    before = len(provider.raw)
    answer = broker.ask(service(provider.url, header=(("x-api-key", "${NOWHERE_TO_BE_FOUND}"),)), body="{}")
    assert answer.status == 502
    assert "${NOWHERE_TO_BE_FOUND} stands for nothing" in answer.json["error"]["message"]
    assert len(provider.raw) == before
    assert os.environ.get("NOWHERE_TO_BE_FOUND") is None
