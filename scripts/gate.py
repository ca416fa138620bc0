"""The long tests without which nothing lands: one end-to-end case of each thing that only long tests cover.

`make test-long` takes longer than `make test`; these few take at most three minutes, with their engines. Each worker
starts engines of its own and takes a part of this list, so tests of the same engine are neighbours here.
"""

_RUN = "tests/backends/containers/test_run.py::TestInside"
_ENGINES = "tests/backends/containers"
_LOCAL = "tests/backends/local"

GATE = (
    # Docker: a sealed run, the self-test, a hostile image, a hostile working directory, a network with a perimeter
    f"{_RUN}::test_an_allowed_name_is_reached[docker_as_user]",
    f"{_RUN}::test_nothing_else_is_reached_or_even_looked_up[docker_as_user]",
    "tests/verify/test_verify_containers.py::test_everything_holds[docker_engine-root]",
    "tests/verify/test_verify_containers.py::test_a_missing_layer_is_found[not_armed]",
    f"{_ENGINES}/test_images.py::TestHostileImages::test_have_no_part_in_the_first_process[docker]",
    f"{_ENGINES}/test_attacks.py::TestMounts::test_a_directory_that_becomes_a_link[docker]",
    f"{_ENGINES}/test_perimeter.py::TestWhatIsAllowed::test_a_name_by_dns_and_tls[docker]",
    f"{_ENGINES}/test_perimeter.py::TestWhatIsNot::test_addresses[docker-80]",
    f"{_ENGINES}/test_processes.py::test_output_and_exit_code_are_the_commands[docker_engine]",
    f"{_ENGINES}/test_run.py::TestCommands::test_a_terminal[docker_as_user]",
    f"{_ENGINES}/test_lives.py::TestAServer::test_that_crashed_comes_back_to_its_sandboxes[entering]",
    "tests/control/test_containers.py::test_a_container_is_a_sandbox_like_any_other",
    # rootless Podman: a sealed run, the self-test, Belljar in a container
    f"{_RUN}::test_an_allowed_name_is_reached[rootless_podman]",
    f"{_RUN}::test_nothing_else_is_reached_or_even_looked_up[rootless_podman]",
    "tests/verify/test_verify_containers.py::test_everything_holds[rootless_engine-user]",
    f"{_LOCAL}/test_in_containers.py::test_what_the_documentation_says_is_enough[rootless]",
    # in a PID namespace that is not the machine's first
    f"{_LOCAL}/test_nested.py::test_the_local_suite[test_verify]",
    # an agent from npm, on the stand-in API
    "tests/agents/test_agents.py::test_an_agent_does_its_work_and_reaches_nothing_else[codex-user]",
    # the dashboard in Chromium
    "tests/dashboard/test_signing_in.py::test_the_token_is_typed",
    "tests/dashboard/test_policy.py::test_a_change_is_shown_and_then_applied",
    "tests/dashboard/test_traffic.py::test_a_denial_is_seen_as_it_happens_with_reason_and_rule",
    "tests/dashboard/test_sandboxes.py::test_what_others_wrote_is_text",
    # servers that are killed, whose disk is full, or that have a broker
    "tests/control/test_killing.py::test_what_runs_inside_goes_on_and_stays_sealed",
    "tests/control/test_full_disk.py::test_a_revoked_grant_does_not_come_back",
    "tests/control/test_brokers.py::test_a_service_is_its_sandboxs_own_and_a_placeholder_opens_nothing",
    # what is sabotaged is found by the self-test
    "tests/verify/test_sabotage.py::test_no_probe_of_the_network_passes_where_nothing_is_isolated",
    "tests/verify/test_sabotage_view.py::test_a_missing_layer_is_found[home_shown]",
)
