"""Commands by API: what goes in, what comes out, and how they end."""

import base64
from pathlib import Path

import httpx2
import pytest

from tests.control.servers import Event, Server, parse_events, problem, until


def run(server: Server, jar: str, *command: str, **more: object):
    answer = server.client.post(server.path(jar, "/exec"), json={"command": list(command), **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def stream(server: Server, jar: str, *command: str, **more: object) -> list[Event]:
    with server.client.stream(
        "POST",
        server.path(jar, "/exec"),
        json={"command": list(command), **more},
        headers={"accept": "text/event-stream"},
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return list(parse_events(answer.iter_lines()))


def test_a_command_has_an_exit_code_and_two_outputs(server, jar):
    result = run(server, jar, "echo", "hello")
    assert (result["exit_code"], result["stdout"], result["stderr"]) == (0, "hello\n", "")
    assert (result["truncated"], result["timed_out"]) == (False, False)
    result = run(server, jar, "nothing")
    assert (result["exit_code"], result["stderr"]) == (127, "nothing: not found\n")


def test_input_variables_and_directory(server, jar):
    assert run(server, jar, "cat", stdin="grüße\n")["stdout"] == "grüße\n"
    assert "KEY=value\n" in run(server, jar, "env", env={"KEY": "value"})["stdout"]
    assert run(server, jar, "pwd", workdir="/tmp")["stdout"] == "/tmp\n"


def test_bytes_go_through_as_base64(server, jar):
    content = bytes(range(256)) * 1000
    result = run(server, jar, "cat", stdin=base64.b64encode(content).decode(), encoding="base64")
    assert base64.b64decode(result["stdout"]) == content
    told = problem(
        server.client.post(server.path(jar, "/exec"), json={"command": ["cat"], "stdin": "?", "encoding": "base64"}),
        400,
        "invalid_request",
    )
    assert told["field"] == "stdin"


def test_output_is_bounded_and_that_is_told(server, jar):
    result = run(server, jar, "cat", stdin="x" * 200_000, max_output_bytes=1000)
    assert (result["stdout"], result["truncated"], result["exit_code"]) == ("x" * 1000, True, 0)


def test_a_command_that_takes_too_long_is_killed(server, jar):
    result = run(server, jar, "sleep", timeout=0.05)
    assert (result["exit_code"], result["timed_out"]) == (137, True)


def test_want_of_memory_is_told_as_such(server, jar):
    def hog(process):
        process.run_out_of_memory()
        return 0

    server.world.programs["hog"] = hog
    result = run(server, jar, "hog")
    assert (result["exit_code"], result["out_of_memory"]) == (137, True)
    assert stream(server, jar, "hog")[-1].data["out_of_memory"] is True
    assert run(server, jar, "true")["out_of_memory"] is False


def test_output_is_streamed_as_it_comes(server, jar):
    events = stream(server, jar, "echo", "hello")
    assert [event.event for event in events] == ["stdout", "exit"]
    assert events[0].data == {"data": "hello\n"}
    assert events[1].data["exit_code"] == 0


def test_letters_that_are_cut_by_the_stream_come_whole(server, jar):
    text = "ü" * 200_000  # two bytes each, and pipes are read in chunks
    events = stream(server, jar, "cat", stdin=f"x{text}")
    assert "".join(event.data["data"] for event in events[:-1]) == f"x{text}"
    assert len(events) > 2


def test_a_command_ends_with_its_request(server, jar):
    with server.client.stream(
        "POST", server.path(jar, "/exec"), json={"command": ["sleep"]}, headers={"accept": "text/event-stream"}
    ):
        [process] = until(lambda: server.world.sandboxes[jar].commands)
    assert process.wait(60) == 137
    with pytest.raises(httpx2.ReadTimeout):
        server.client.post(server.path(jar, "/exec"), json={"command": ["sleep"]}, timeout=0.2)
    until(lambda: len(server.world.sandboxes[jar].commands) == 2)
    assert server.world.sandboxes[jar].commands[1].wait(60) == 137


def test_a_command_that_cannot_be_run_is_a_problem(server, jar):
    for command in ([], ["a\0b"]):
        answer = server.client.post(server.path(jar, "/exec"), json={"command": command})
        assert answer.status_code == 400
    problem(server.client.post(server.path(jar, "/exec"), json={"command": "echo"}), 400, "invalid_request")
    problem(server.client.post("/sandboxes/none/exec", json={"command": ["true"]}), 404, "sandbox_not_found")


def test_nothing_is_left_of_commands(server, jar):
    for _ in range(5):
        run(server, jar, "echo", "x")
        stream(server, jar, "echo", "x")
    until(lambda: not list((server.state / "pipes").iterdir()))
    ours = {path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    assert not [path for path in ours if path.is_relative_to(server.state / "pipes")]
