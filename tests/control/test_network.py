"""The network policy of a sandbox by API: set, amended, granted for a time, previewed."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.control.servers import Server, problem, until


def put(server: Server, jar: str, policy: object, **headers: str):
    return server.client.put(server.path(jar, "/network"), json=policy, headers=headers)


def policy_of(server: Server, jar: str):
    return server.client.get(server.path(jar, "/network")).json()


def says(server: Server, jar: str, destination: str) -> str:
    answer = server.client.get(server.path(jar, "/network/explain"), params={"destination": destination})
    return str(answer.json()["action"])


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"mode": "allow-all"}, id="allow all"),
        pytest.param({"mode": "block-all"}, id="block all"),
        pytest.param({"mode": "block-all", "egress": {"allowed_domains": ["github.com"]}}, id="allow domains"),
        pytest.param({"mode": "allow-all", "egress": {"denied_domains": ["facebook.com"]}}, id="block domains"),
        pytest.param(
            {
                "mode": "block-all",
                "egress": {"allowed_domains": ["x.test"], "allowed_cidrs": ["192.0.2.0/24"], "allowed_ports": [443]},
                "rules": [{"action": "deny", "domains": ["y.x.test"]}],
                "presets": ["github"],
                "host_ports": [5432],
                "services": {
                    "anthropic": {"budget": {"dollars": 2.5}},
                    "llm": {"url": "https://llm.corp.test/v1", "header": {"x-api-key": "${LLM_KEY}"}},
                    "web": {"port": 8080, "at": 80},
                    "tool": {"socket": "/run/tool.sock"},
                    "db": {"address": "10.1.2.3:5432"},
                },
                "allow_private": True,
            },
            id="everything",
        ),
    ],
)
def test_what_is_set_is_what_is_told_and_can_be_set_again(server, jar, policy):
    change = put(server, jar, policy)
    assert (change.status_code, change.json()["generation"], change.json()["flows_reset"]) == (200, 2, 0)
    assert policy_of(server, jar) == change.json()["policy"] == policy
    assert put(server, jar, policy_of(server, jar)).json()["generation"] == 3


def test_a_policy_replaces_the_one_before_as_a_whole(server, jar):
    put(
        server, jar, {"mode": "block-all", "egress": {"allowed_domains": ["a.test"], "allowed_cidrs": ["192.0.2.1/32"]}}
    )
    put(server, jar, {"mode": "block-all", "egress": {"allowed_domains": ["b.test"]}})
    assert policy_of(server, jar) == {"mode": "block-all", "egress": {"allowed_domains": ["b.test"]}}
    assert [says(server, jar, name) for name in ("a.test", "b.test")] == ["deny", "allow"]


def test_the_spelling_of_other_systems_is_read_as_well(server, jar):
    put(server, jar, {"mode": "block-all", "egress": {"allowedDomains": ["a.test"]}})
    assert policy_of(server, jar)["egress"] == {"allowed_domains": ["a.test"]}


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        pytest.param({}, None, id="empty"),
        pytest.param([], None, id="no object"),
        pytest.param({"egress": {}}, "mode", id="no mode"),
        pytest.param({"mode": "allow"}, "mode", id="unknown mode"),
        pytest.param({"mode": "block-all", "egres": {}}, "egres", id="unknown key"),
        pytest.param(
            {"mode": "block-all", "egress": {"allowed_domains": [""]}}, "egress.allowed_domains[0]", id="blank"
        ),
        pytest.param({"mode": "block-all", "egress": {"allowed_ports": [0]}}, "egress.allowed_ports[0]", id="port 0"),
    ],
)
def test_a_bad_policy_changes_nothing(server, jar, policy, field):
    before = server.client.get(server.path(jar)).json()
    told = problem(put(server, jar, policy), 400, "invalid_policy")
    assert told["field"] == field
    assert server.client.get(server.path(jar)).json() == before


def test_what_stands_twice_is_refused(server, jar):
    answer = server.client.put(
        server.path(jar, "/network"),
        content=b'{"mode": "block-all", "mode": "allow-all"}',
        headers={"content-type": "application/json"},
    )
    assert problem(answer, 400, "invalid_policy")["field"] == "mode"


def test_odd_entries_are_warned_of(server, jar):
    [warning] = put(server, jar, {"mode": "block-all", "egress": {"denied_ports": [25]}}).json()["warnings"]
    assert warning["field"] == "egress.denied_ports"


@pytest.mark.parametrize("ports", [lambda port: port, lambda port: f"{port - 1}-{port + 1}", lambda _: "1-65535"])
def test_the_server_s_own_port_is_never_granted(server, jar, ports):
    policy = {"mode": "allow-all", "host_ports": [1, ports(server.port)]}
    told = problem(put(server, jar, policy), 400, "control_port")
    assert told["field"] == "host_ports[1]"
    told = problem(server.client.post("/sandboxes", json={"backend": "memory", "network": policy}), 400, "control_port")
    assert told["field"] == "network.host_ports[1]"
    patch = {"add": {"host_ports": policy["host_ports"]}}
    problem(server.client.patch(server.path(jar, "/network"), json=patch), 400, "control_port")


@pytest.mark.parametrize(
    "entry",
    [
        lambda port: {"port": port, "at": 80},
        lambda port: {"url": f"http://127.0.0.1:{port}/v1"},
        lambda port: {"url": f"http://localhost:{port}"},
        lambda port: {"url": f"https://[::1]:{port}"},
    ],
)
def test_the_server_s_own_port_is_no_service(server, jar, entry):
    policy = {"mode": "block-all", "services": {"web": {"port": 8080}, "own": entry(server.port)}}
    assert problem(put(server, jar, policy), 400, "control_port")["field"] == "services.own"
    told = problem(server.client.post("/sandboxes", json={"backend": "memory", "network": policy}), 400, "control_port")
    assert told["field"] == "network.services.own"
    patch = {"add": {"services": policy["services"]}}
    problem(server.client.patch(server.path(jar, "/network"), json=patch), 400, "control_port")
    assert policy_of(server, jar) == {"mode": "block-all"}
    assert put(server, jar, {"mode": "block-all", "services": {"web": entry(server.port - 1)}}).status_code == 200


def test_a_socket_that_commands_something_is_no_service(server, jar, tmp_path):
    (tmp_path / "link").symlink_to(server.state)
    sockets = {
        "own": server.state / "belljar.sock",
        "state": server.state / "x" / "y",
        "link": tmp_path / "link" / "belljar.sock",
        "docker": "/run/docker.sock",
        "older": "/var/run/docker.sock",
        "podman": "/run/user/1000/podman/podman.sock",
        "moved": tmp_path / "containerd.sock",
        "newer": "/run/containerd/containerd.sock.ttrpc",
    }
    services = {name: {"socket": str(path)} for name, path in sockets.items()}
    told = problem(put(server, jar, {"mode": "block-all", "services": services}), 400, "invalid_policy")
    assert [found["field"] for found in told["problems"]] == [f"services.{name}.socket" for name in sockets]
    assert policy_of(server, jar) == {"mode": "block-all"}
    assert (
        put(server, jar, {"mode": "block-all", "services": {"tool": {"socket": f"{tmp_path}/tool.sock"}}}).status_code
        == 200
    )


def test_a_socket_whose_path_cannot_be_followed_is_refused(server, jar):
    services = {"magic": {"socket": "/proc/1/root/run/tool.sock"}, "long": {"socket": f"/run/{'x' * 300}"}}
    told = problem(put(server, jar, {"mode": "block-all", "services": services}), 400, "invalid_policy")
    assert [found["field"] for found in told["problems"]] == [f"services.{name}.socket" for name in services]
    assert "write the socket's own path" in str(told["problems"][0])


def test_services_are_added_changed_and_removed_by_name(server, jar):
    services = {"web": {"port": 8080}, "db": {"port": 5432}}
    put(server, jar, {"mode": "block-all", "services": services})

    def patch(**change: object):
        return server.client.patch(server.path(jar, "/network"), json=change)

    change = {"add": {"services": {"db": {"port": 5433}, "anthropic": {}}}, "remove": {"services": ["web"]}}
    expected = {"mode": "block-all", "services": {"db": {"port": 5433}, "anthropic": {}}}
    assert patch(**change).json()["policy"] == policy_of(server, jar) == expected
    asked = ("db.belljar.internal:5433", "anthropic.belljar.internal:80", "db.belljar.internal:5432")
    assert [says(server, jar, destination) for destination in asked] == ["allow", "allow", "deny"]
    told = problem(patch(remove={"services": ["web"]}), 400, "invalid_request")
    assert told["field"] == "remove.services[0]"
    strange: list[object] = [{"db": {}}, "db", None, [1], [["db"]], [{}]]
    for wrong in strange:
        told = problem(patch(remove={"services": wrong}), 400, "invalid_request")
        assert told["field"].startswith("remove.services")
    for part in ("add", "remove"):
        for other in ("db", ["db"], None, 1):
            assert problem(patch(**{part: other}), 400, "invalid_request")["field"] == part
    assert problem(patch(add={"services": ["db"]}), 400, "invalid_policy")["field"] == "add.services"
    told = problem(patch(add={"services": {"db": {"prot": 1}}}), 400, "invalid_policy")
    assert told["field"] == "add.services.db.prot"
    assert policy_of(server, jar) == expected


def test_a_grant_opens_no_name_of_a_service(server, jar):
    put(server, jar, {"mode": "block-all", "services": {"db": {"port": 5432}}})
    for name in ("web.belljar.internal", "db.belljar.internal:22"):
        body = {"allow": name, "seconds": 60}
        problem(server.client.post(server.path(jar, "/network/grants"), json=body), 409, "grant_without_effect")


SECRET = "sk-hush-0123456789"


def test_no_secret_is_taken_told_or_written_down(server, jar):
    """What looks like one is refused, and not repeated; what stays is its name."""
    for entry in (
        {"header": {"Authorization": f"Bearer {SECRET}"}},
        {"header": {"x-api-key": SECRET}},
        {"url": f"https://me:{SECRET}@llm.corp.test"},
        {"url": f"https://llm.corp.test/?key={SECRET}"},
    ):
        policy = {"mode": "block-all", "services": {"anthropic": entry}}
        made = {"backend": "memory", "network": policy}
        for answer in (
            put(server, jar, policy),
            server.client.put(server.path(jar, "/network?dry_run=true"), json=policy),
            server.client.patch(server.path(jar, "/network"), json={"add": {"services": policy["services"]}}),
            server.client.post("/sandboxes", json=made),
        ):
            problem(answer, 400, "invalid_policy")
            assert SECRET not in answer.text
    named = {"mode": "block-all", "services": {"anthropic": {"header": {"x-api-key": "${HUSHED_KEY}"}}}}
    assert "${HUSHED_KEY}" in put(server, jar, named).text
    with server.events(f"/sandboxes/{jar}/events?after=0&follow=false") as events:
        told = [str(event) for event in events]
    assert told
    assert SECRET not in "".join(told)
    kept = [path.read_bytes() for path in server.state.rglob("*") if path.is_file()]
    assert any(b"HUSHED_KEY" in content for content in kept)
    assert not any(SECRET.encode() in content for content in kept)


def test_of_two_who_change_the_same_policy_one_is_told_so(server, jar):
    tag = server.client.get(server.path(jar, "/network")).headers["etag"]
    first = put(server, jar, {"mode": "allow-all"}, **{"if-match": tag})
    assert first.status_code == 200
    problem(put(server, jar, {"mode": "block-all"}, **{"if-match": tag}), 412, "policy_changed")
    assert policy_of(server, jar) == {"mode": "allow-all"}
    assert put(server, jar, {"mode": "block-all"}, **{"if-match": first.headers["etag"]}).status_code == 200
    assert put(server, jar, {"mode": "block-all"}, **{"if-match": "*"}).status_code == 200


def test_many_changes_at_once_have_generations_of_their_own(server, jar):
    policies = [{"mode": "block-all", "egress": {"allowed_domains": [f"n{number}.test"]}} for number in range(20)]
    with ThreadPoolExecutor(8) as threads:
        generations = [answer.json()["generation"] for answer in threads.map(lambda p: put(server, jar, p), policies)]
    assert sorted(generations) == list(range(2, 22))
    assert policy_of(server, jar) == policies[generations.index(21)]


def test_entries_are_added_and_removed(server, jar):
    put(server, jar, {"mode": "block-all", "egress": {"allowed_domains": ["a.test", "b.test"]}})
    patch = {
        "add": {"egress": {"allowed_domains": ["c.test", "a.test"]}, "host_ports": [5432]},
        "remove": {"egress": {"allowed_domains": ["B.test."]}},
    }
    answer = server.client.patch(server.path(jar, "/network"), json=patch)
    expected = {"mode": "block-all", "egress": {"allowed_domains": ["a.test", "c.test"]}, "host_ports": [5432]}
    assert answer.json()["policy"] == policy_of(server, jar) == expected
    told = problem(server.client.patch(server.path(jar, "/network"), json=patch), 400, "invalid_request")
    assert told["field"] == "remove.egress.allowed_domains[0]"
    told = problem(
        server.client.patch(server.path(jar, "/network"), json={"add": {"egress": {"allowed_cidrs": ["x"]}}}),
        400,
        "invalid_policy",
    )
    assert told["field"] == "add.egress.allowed_cidrs[0]"
    problem(
        server.client.patch(server.path(jar, "/network"), json={"add": {"mode": "allow-all"}}), 400, "invalid_request"
    )
    assert policy_of(server, jar) == expected


def test_a_dry_run_tells_and_changes_nothing(server, jar):
    before = server.client.get(server.path(jar)).json()
    answer = server.client.put(
        server.path(jar, "/network?dry_run=true"), json={"mode": "allow-all", "egress": {"allowed_ports": [1]}}
    ).json()
    assert (answer["generation"], answer["flows_reset"], answer["changes"]) == (1, 0, [])
    assert answer["warnings"]
    assert server.client.get(server.path(jar)).json() == before
    problem(server.client.put(server.path(jar, "/network?dry_run=true"), json={"mode": "x"}), 400, "invalid_policy")


def test_a_grant_opens_and_closes_by_itself(server, jar):
    grants = server.path(jar, "/network/grants")
    answer = server.client.post(grants, json={"allow": "github.com", "seconds": 0.2})
    assert answer.status_code == 201
    until(lambda: says(server, jar, "github.com") == "deny")
    assert server.client.get(grants).json() == {"grants": []}
    with server.events(server.path(jar, "/events?after=0")) as events:
        told = [next(e for e in events if e.event == name).data for name in ("grant.opened", "grant.closed")]
    assert [(line["allow"], line.get("cause")) for line in told] == [("github.com", None), ("github.com", "time")]
    assert server.client.get(server.path(jar)).json()["network"]["generation"] == 3


def test_a_grant_leaves_the_policy_as_it_is(server, jar):
    before = server.client.get(server.path(jar, "/network"))
    grant = server.client.post(
        server.path(jar, "/network/grants"), json={"allow": ".github.com:22", "seconds": 600}
    ).json()
    after = server.client.get(server.path(jar, "/network"))
    assert (after.json(), after.headers["etag"]) == (before.json(), before.headers["etag"])
    destinations = ("x.github.com:22", "x.github.com:443")
    assert [says(server, jar, destination) for destination in destinations] == ["allow", "deny"]
    assert server.client.delete(server.path(jar, f"/network/grants/{grant['id']}")).status_code == 204
    assert says(server, jar, "x.github.com:22") == "deny"
    problem(server.client.delete(server.path(jar, f"/network/grants/{grant['id']}")), 404, "grant_not_found")


def test_a_grant_overrides_a_list_but_not_a_rule(server, jar):
    policy = {
        "mode": "allow-all",
        "egress": {"denied_domains": ["listed.test"]},
        "rules": [{"name": "never", "action": "deny", "domains": ["ruled.test"]}],
    }
    put(server, jar, policy)
    grants = server.path(jar, "/network/grants")
    assert server.client.post(grants, json={"allow": "listed.test", "seconds": 60}).status_code == 201
    assert says(server, jar, "listed.test") == "allow"
    told = problem(server.client.post(grants, json={"allow": "ruled.test", "seconds": 60}), 409, "grant_without_effect")
    assert "rules[0]" in told["detail"]


def test_to_set_a_policy_ends_all_grants(server, jar):
    server.client.post(server.path(jar, "/network/grants"), json={"allow": "192.0.2.7", "seconds": 600})
    assert says(server, jar, "192.0.2.7:22") == "allow"
    put(server, jar, {"mode": "block-all"})
    assert says(server, jar, "192.0.2.7:22") == "deny"


@pytest.mark.parametrize(
    "grant",
    [
        {"allow": "*", "seconds": 1},
        {"allow": "http://x", "seconds": 1},
        {"allow": "*.com", "seconds": 1},
    ],
)
def test_a_bad_grant_opens_nothing(server, jar, grant):
    told = problem(server.client.post(server.path(jar, "/network/grants"), json=grant), 400, "invalid_policy")
    assert told["field"] == "allow"
    problem(server.client.post(server.path(jar, "/network/grants"), json={"allow": "x"}), 400, "invalid_request")
    assert server.client.get(server.path(jar, "/network/grants")).json() == {"grants": []}


def test_explaining(server, jar):
    put(server, jar, {"mode": "block-all", "egress": {"allowed_domains": ["github.com"]}})
    answer = server.client.get(server.path(jar, "/network/explain?destination=https://github.com/x")).json()
    assert (answer["action"], answer["rule"]) == ("allow", "egress.allowed_domains[0]")
    told = problem(server.client.get(server.path(jar, "/network/explain?destination=a b")), 400, "invalid_request")
    assert told["field"] == "destination"
