"""Images are as they were asked for, on every engine."""

from typing import Any

from tests.engines import Directory, File, Link, busybox, make_image

CONFIG: dict[str, Any] = {
    "Entrypoint": ["/bin/busybox"],
    "Cmd": ["stat", "-c", "%a %n", "/bin", "/bin/sh", "/data"],
    "User": "1000:1000",
    "WorkingDir": "/data",
    "Env": ["COLOUR=blue"],
    "Volumes": {"/data": {}},
    "Healthcheck": {"Test": ["CMD", "/bin/sh", "-c", "true"], "Interval": 30_000_000_000},
}


def create(engine, image: str, **wanted: object) -> str:
    wanted = {"Image": image, "Tty": True, "HostConfig": {"NetworkMode": "none"}} | wanted
    return str(engine.api.call("POST", "/containers/create", wanted)["Id"])


def run(engine, container: str) -> str:
    """Run a container to its end, and return what it said."""
    engine.api.call("POST", f"/containers/{container}/start")
    assert engine.api.call("POST", f"/containers/{container}/wait")["StatusCode"] == 0
    said = engine.api.send("GET", f"/containers/{container}/logs?stdout=1").decode()
    engine.api.call("DELETE", f"/containers/{container}?v=true")
    return str(said)


def test_files_and_configuration(engine):
    files = {
        "bin/busybox": busybox()["bin/busybox"],
        "bin/sh": Link("busybox"),
        "bin": Directory(0o751),
        "data": Directory(0o1777),
    }
    container = create(engine, make_image(engine, "configured", files, CONFIG))
    found = engine.api.call("GET", f"/containers/{container}/json")["Config"]
    assert found["Healthcheck"]["Test"] == CONFIG["Healthcheck"]["Test"]
    for key in ("Entrypoint", "Cmd", "User", "WorkingDir"):
        assert found[key] == CONFIG[key]
    assert "COLOUR=blue" in found["Env"]
    assert run(engine, container).split() == ["751", "/bin", "777", "/bin/sh", "1777", "/data"]


def test_a_single_program_and_nothing_else(engine):
    image = make_image(engine, "single:1", {"busybox": busybox()["bin/busybox"], "empty": File()})
    said = run(engine, create(engine, image, Entrypoint=["/busybox"], Cmd=["ls", "/"])).split()
    assert {"busybox", "empty"} <= set(said)
    assert "bin" not in said
