"""`belljar policy` as a user meets it: what is printed where, and with which exit code."""

import json

import pytest
from click.testing import CliRunner, Result

from belljar.cli import main as main_module
from belljar.cli.main import cli
from belljar.errors import BelljarError

POLICY = """\
mode: block-all
egress:
  allowed_domains:
    - api.example.org
    - "*.example.net"
    - "db.corp.example:5432"
  allowed_cidrs: [10.2.0.0/16]
rules:
  - {name: no-gists, action: deny, domains: [gist.example.net]}
host_ports: [6379]
"""


@pytest.fixture
def policy_file(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return str(path)


def belljar(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """Run a command as main() would: errors of ours become a message and exit code 125."""
    result = CliRunner().invoke(cli, arguments, input=stdin, prog_name="belljar")
    if isinstance(result.exception, BelljarError):
        result.exit_code = main_module.EXIT_FAILED
    elif result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def message(result: Result) -> str:
    return result.stderr or str(result.exception)


class TestCheck:
    def test_a_valid_file(self, policy_file):
        result = belljar("policy", "check", policy_file)
        assert result.exit_code == 0
        assert result.stdout == f"{policy_file}: valid: block-all, 3 domains, 1 range, 1 rule, 1 host port\n"

    def test_services_are_counted(self, tmp_path):
        path = tmp_path / "services.yaml"
        path.write_text("mode: block-all\nservices: {anthropic: {}, web: {port: 80}}\n")
        assert belljar("policy", "check", str(path)).stdout == f"{path}: valid: block-all, 2 services\n"

    def test_every_problem_is_listed_with_its_line(self, tmp_path):
        path = tmp_path / "bad.yaml"
        path.write_text('mode: block-all\negress:\n  allowed_domains:\n    - ok.example.org\n    - "*.com"\n    - ""\n')
        result = belljar("policy", "check", str(path))
        assert result.exit_code == 1
        assert result.stdout == ""
        assert f'{path}:5: error: egress.allowed_domains[1]: "*.com" would grant' in result.stderr
        assert f'{path}:6: error: egress.allowed_domains[2]: "" is blank' in result.stderr

    def test_one_bad_file_among_good_ones_fails_the_check_and_the_others_are_still_checked(self, policy_file, tmp_path):
        result = belljar("policy", "check", str(tmp_path / "missing.yaml"), policy_file)
        assert result.exit_code == 125
        assert "missing.yaml does not exist" in result.stderr
        assert f"{policy_file}: valid" in result.stdout

    def test_a_file_that_cannot_be_read_outweighs_one_that_is_not_valid(self, tmp_path):
        bad = tmp_path / "bad.yaml"
        bad.write_text("mode: open")
        assert belljar("policy", "check", str(tmp_path / "missing.yaml"), str(bad)).exit_code == 125

    def test_warnings_are_shown_and_do_not_fail(self):
        result = belljar("policy", "check", "-", stdin="mode: allow-all\negress:\n  allowed_ports: [443]\n")
        assert result.exit_code == 0
        assert "standard input:3: warning: egress.allowed_ports: has no effect in mode allow-all" in result.stderr
        assert "standard input: valid" in result.stdout

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{}",
            "[]",
            "null",
            "mode: allow",
            "just text",
            "mode: block-all\nmode: allow-all",
            "a: b: c",
            "\0",
            "---\n---",
        ],
    )
    def test_broken_documents_exit_with_1(self, text):
        result = belljar("policy", "check", "-", stdin=text)
        assert result.exit_code == 1
        assert "standard input is not a valid policy" in result.stderr

    def test_a_file_that_is_not_text(self, tmp_path):
        path = tmp_path / "policy.yaml"
        path.write_bytes(b"mode: \xff\xfe")
        result = belljar("policy", "check", str(path))
        assert result.exit_code == 125
        assert "is not UTF-8 text" in result.stderr

    def test_a_directory(self, tmp_path):
        result = belljar("policy", "check", str(tmp_path))
        assert result.exit_code == 125
        assert "is a directory; name a file in it" in result.stderr

    @pytest.mark.parametrize("name", ["", "no\x1b[31msuch.yaml", "no\nsuch.yaml", "no\udcffsuch.yaml"], ids=ascii)
    def test_a_file_is_named_on_one_line_whatever_its_name_holds(self, name):
        result = belljar("policy", "check", name)
        assert result.exit_code == 125
        assert "does not exist" in result.stderr
        assert result.stderr.removesuffix("\n").isprintable()

    def test_a_file_without_an_end_is_not_read_to_the_end(self):
        result = belljar("policy", "check", "/dev/zero")
        assert result.exit_code == 125
        assert "is larger than 64 MiB" in result.stderr


class TestShow:
    @pytest.mark.parametrize("syntax", ["yaml", "json", "toml"])
    def test_what_is_printed_reads_back_as_the_same(self, policy_file, tmp_path, syntax):
        shown = belljar("policy", "show", policy_file, "--format", syntax)
        assert shown.exit_code == 0
        again = tmp_path / f"again.{syntax}"
        again.write_text(shown.stdout)
        assert belljar("policy", "show", str(again)).stdout == belljar("policy", "show", policy_file).stdout

    @pytest.mark.parametrize("syntax", ["yaml", "json", "toml"])
    def test_standard_input_is_read_in_every_syntax(self, policy_file, syntax):
        text = belljar("policy", "show", policy_file, "--format", syntax).stdout
        assert belljar("policy", "show", "-", stdin=text).stdout == belljar("policy", "show", policy_file).stdout

    def test_expand_writes_out_presets(self):
        stdin = "mode: block-all\npresets: [anthropic, {node: registry.corp.example}]\n"
        result = belljar("policy", "show", "--expand", "--format", "json", "-", stdin=stdin)
        domains = json.loads(result.stdout)["egress"]["allowed_domains"]
        assert "api.anthropic.com:443" in domains
        assert {"registry.corp.example:443", "registry.corp.example:80"} <= set(domains)
        assert "presets" not in json.loads(result.stdout)

    def test_an_invalid_policy_prints_nothing_on_standard_output(self):
        result = belljar("policy", "show", "-", stdin="mode: open")
        assert (result.exit_code, result.stdout) == (125, "")
        assert "is not a mode" in message(result)


class TestExplain:
    def test_all_allowed_exits_with_0(self, policy_file):
        result = belljar("policy", "explain", policy_file, "api.example.org", "x.example.net:80", "10.2.0.9:22")
        assert result.exit_code == 0

    def test_one_denied_exits_with_1(self, policy_file):
        assert belljar("policy", "explain", policy_file, "api.example.org", "evil.example").exit_code == 1

    @pytest.mark.parametrize(
        "destination", ["127.1", "host:0", "a b", "http://", "x://y", "0x7f000001", "fe80::1%eth0", ""]
    )
    def test_a_bad_destination_exits_with_125_and_names_it(self, policy_file, destination):
        result = belljar("policy", "explain", policy_file, "api.example.org", destination)
        assert (result.exit_code, result.stdout) == (125, "")
        assert repr(destination) in message(result)

    def test_the_rule_comes_with_its_line(self, policy_file):
        result = belljar("policy", "explain", policy_file, "db.corp.example:5432")
        assert "egress.allowed_domains[2] (line 6)" in result.stdout

    def test_json_has_exactly_the_documented_keys(self, policy_file):
        result = belljar("policy", "explain", "--json", policy_file, "gist.example.net", "9.9.9.9:53/udp")
        assert result.exit_code == 1
        assert json.loads(result.stdout) == [
            {
                "destination": "gist.example.net",
                "action": "deny",
                "reason": "denied_by_rule",
                "rule": "rules[0]",
                "sentence": "gist.example.net:443 is denied by rules[0].",
            },
            {
                "destination": "9.9.9.9:53/udp",
                "action": "deny",
                "reason": "udp_blocked",
                "rule": "mode",
                "sentence": "9.9.9.9:53/udp is UDP, and in block-all none leaves the sandbox; "
                "DNS is answered by the gateway.",
            },
        ]

    def test_a_pipe_gets_no_colours(self, policy_file):
        assert "\x1b" not in belljar("policy", "explain", policy_file, "evil.example").stdout

    def test_an_invalid_policy_is_an_error_not_a_denial(self):
        assert belljar("policy", "explain", "-", "example.org", stdin="{}").exit_code == 125


class TestPresets:
    def test_the_list_names_every_preset(self):
        result = belljar("policy", "presets")
        for name in ("anthropic", "python", "agent-default"):
            assert f"\n{name} " in result.stdout

    def test_one_preset_shows_each_host_with_its_reason(self):
        result = belljar("policy", "presets", "anthropic")
        assert "api.anthropic.com:443" in result.stdout
        assert "model calls" in result.stdout

    def test_an_unknown_preset_is_refused_with_one_that_may_be_meant(self):
        result = belljar("policy", "presets", "pyton")
        assert result.exit_code == 125
        assert '"pyton" is not a preset (did you mean python?); `belljar policy presets` lists them' in message(result)

    def test_a_tool_that_is_absent_leads_to_the_remedy(self, monkeypatch):
        monkeypatch.setenv("PATH", "/nonexistent")
        monkeypatch.setattr("belljar.discovery.asking.DIRECTORIES", "/nonexistent")  # the system's are looked in, too
        result = belljar("policy", "presets", "node")
        assert result.exit_code == 125
        assert "presets: [{node: registry.corp.example}]" in message(result)


class TestImport:
    def test_the_policy_goes_to_standard_output_and_notes_to_standard_error(self):
        source = json.dumps({"network": {"allowedDomains": ["api.example.org"], "allowUnixSockets": ["/run/x"]}})
        result = belljar("policy", "import", "-", stdin=source)
        assert result.exit_code == 0
        assert belljar("policy", "check", "-", stdin=result.stdout).exit_code == 0
        assert "api.example.org" in result.stdout
        assert "allowUnixSockets" in result.stderr

    def test_an_unknown_format_is_refused(self):
        result = belljar("policy", "import", "-", stdin='{"what": "is this"}')
        assert (result.exit_code, result.stdout) == (125, "")
