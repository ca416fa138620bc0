"""Documents to policies: everything known, every problem at once, and nothing that falls back to an open policy."""

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.policy import (
    Action,
    InvalidPolicyError,
    Mode,
    Policy,
    Protocol,
    Syntax,
    compile_policy,
    policy_from,
    read_policy,
)
from belljar.policy.language.parse import DOCUMENT_KEYS, EGRESS_KEYS, RULE_KEYS
from belljar.policy.language.reading import Reading
from belljar.policy.model import DomainPattern, Egress, PortRange, PresetUse, Rule, Scope
from belljar.policy.services import PROVIDERS, Budget, Service, ServiceKind, SharedBudget
from tests.policy.documents import problems, read, shown
from tests.policy.strategies import unhurried

EVERYTHING = """\
mode: block-all
egress:
  allowed_domains: [api.anthropic.com, "*.github.com", "db.corp.example:5432"]
  allowed_cidrs:   [10.2.0.0/16, 2001:db8::1]
  allowed_ports:   [443, "8000-8100", "123/udp"]
  denied_domains:  ["*.com", .example]
  denied_cidrs:    [198.51.100.0/24]
  denied_ports:    [25]
rules:
  - {name: no-gists, action: deny, domains: [gist.github.com]}
  - {action: allow, cidrs: [192.0.2.0/24], ports: ["53/udp"], protocol: udp}
  - action: deny
    protocol: tcp
presets: [anthropic, python: registry.corp.example, node: [a.corp.example, "b.corp.example:8443"]]
host_ports: [5432, 8000-8010]
services:
  anthropic: {budget: {dollars: 2.50, output_tokens: 1000}, shared_budget: {group: nightly, requests: 9}}
  llm: {url: "https://llm.corp.example/v1/", header: {X-Api-Key: "${LLM_KEY}"}, paths: [POST /v1/chat],
        server_tools: allow}
  web: {port: 8080, at: 80}
  tool: {socket: /run/tool.sock}
  db: {address: "DB.corp.example:5432"}
  six: {address: "[2001:DB8::1]:80", at: 81}
allow_private: true
"""


def test_a_document_with_everything():
    assert read(EVERYTHING) == Policy(
        mode=Mode.BLOCK_ALL,
        egress=Egress(
            allowed_domains=(
                DomainPattern("api.anthropic.com"),
                DomainPattern("github.com", Scope.BELOW),
                DomainPattern("db.corp.example", port=5432),
            ),
            allowed_cidrs=read(
                "mode: block-all\negress: {allowed_cidrs: [10.2.0.0/16, '2001:db8::1/128']}"
            ).egress.allowed_cidrs,
            allowed_ports=(PortRange(443, 443), PortRange(8000, 8100), PortRange(123, 123, Protocol.UDP)),
            denied_domains=(DomainPattern("com", Scope.BELOW), DomainPattern("example", Scope.WITHIN)),
            denied_cidrs=read("mode: block-all\negress: {denied_cidrs: [198.51.100.0/24]}").egress.denied_cidrs,
            denied_ports=(PortRange(25, 25),),
        ),
        rules=(
            Rule(Action.DENY, "no-gists", domains=(DomainPattern("gist.github.com"),)),
            Rule(
                Action.ALLOW,
                cidrs=read("mode: block-all\negress: {allowed_cidrs: [192.0.2.0/24]}").egress.allowed_cidrs,
                ports=(PortRange(53, 53, Protocol.UDP),),
                protocol=Protocol.UDP,
            ),
            Rule(Action.DENY, protocol=Protocol.TCP),
        ),
        presets=(
            PresetUse("anthropic"),
            PresetUse("python", (DomainPattern("registry.corp.example"),)),
            PresetUse("node", (DomainPattern("a.corp.example"), DomainPattern("b.corp.example", port=8443))),
        ),
        host_ports=(PortRange(5432, 5432), PortRange(8000, 8010)),
        services=(
            Service(
                "anthropic",
                ServiceKind.BROKER,
                PROVIDERS["anthropic"].url,
                at=80,
                header=PROVIDERS["anthropic"].header,
                paths=PROVIDERS["anthropic"].paths,
                budget=Budget(dollars=2.5, output_tokens=1000),
                shared=SharedBudget("nightly", Budget(requests=9)),
            ),
            Service(
                "llm",
                ServiceKind.BROKER,
                "https://llm.corp.example/v1",
                at=80,
                header=(("x-api-key", "${LLM_KEY}"),),
                paths=("POST /v1/chat",),
                server_tools=True,
            ),
            Service("web", ServiceKind.HOST_PORT, "8080", at=80),
            Service("tool", ServiceKind.UNIX_SOCKET, "/run/tool.sock", at=80),
            Service("db", ServiceKind.ADDRESS, "db.corp.example:5432", at=5432),
            Service("six", ServiceKind.ADDRESS, "[2001:db8::1]:80", at=81),
        ),
        allow_private=True,
    )


@pytest.mark.parametrize("mode", Mode)
def test_a_mode_is_a_whole_document(mode):
    assert read(f"mode: {mode}") == Policy(mode)


@pytest.mark.parametrize(
    "empty",
    ["egress: {}", "rules: []", "presets: []", "host_ports: []", "services: {}", "egress: {allowed_domains: []}"],
)
def test_empty_parts_say_nothing(empty):
    assert read(f"mode: block-all\n{empty}") == Policy(Mode.BLOCK_ALL)


PROBLEMS = {
    # mode
    "egress: {}": ['mode: is missing, and nothing is assumed; write "block-all" or "allow-all"'],
    "mode:": ['mode: null is not a mode; write "block-all" or "allow-all"'],
    "mode: ''": ['mode: "" is not a mode'],
    "mode: allow": ['mode: "allow" is not a mode (did you mean allow-all?)'],
    "mode: blockall": ["(did you mean block-all?)"],
    "mode: block_all": ["(did you mean block-all?)"],
    "mode: Block-All": ['mode: "Block-All" is not a mode (did you mean block-all?)'],
    "mode: ALLOW-ALL": ['mode: "ALLOW-ALL" is not a mode'],
    "mode: 'allow-all '": ['mode: "allow-all " is not a mode'],
    "mode: dev-open": ['mode: "dev-open" is not a mode'],
    "mode: [allow-all]": ['mode: ["allow-all"] is not a mode'],
    "mode: {allow-all: true}": ["is not a mode"],
    "mode: true": ["mode: true is not a mode"],
    "mode: 1": ["mode: 1 is not a mode"],
    # kinds
    "mode: allow-all\negress:": ["egress: is empty; write a mapping with some of: allowed_domains"],
    "mode: allow-all\negress: []": ["egress: is a list; write a mapping"],
    "mode: allow-all\negress: open": ["egress: is text; write a mapping"],
    "mode: allow-all\nrules:": ["rules: is empty; write a list"],
    "mode: allow-all\nrules: {}": ["rules: is a mapping; write a list"],
    "mode: allow-all\nrules: deny": ["rules: is text; write a list"],
    "mode: allow-all\nrules: [deny]": ["rules[0]: is text; write a mapping with some of: name, action"],
    "mode: allow-all\nrules: [~]": ["rules[0]: is empty; write a mapping"],
    "mode: allow-all\nrules: [[]]": ["rules[0]: is a list; write a mapping"],
    "mode: allow-all\npresets:": ["presets: is empty; write a list"],
    "mode: allow-all\npresets: python": ["presets: is text; write a list"],
    "mode: allow-all\nhost_ports: 5432": ["host_ports: is a number; write a list, such as [5432]"],
    "mode: allow-all\nhost_ports:": ["host_ports: is empty; write a list"],
    "mode: allow-all\nallow_private: yes": ['allow_private: "yes" is neither true nor false; write one of them'],
    "mode: allow-all\negress: {denied_domains: }": ["egress.denied_domains: is empty; write a list"],
    "mode: allow-all\negress: {denied_domains: a.example}": ['such as ["a.example"]'],
    "mode: allow-all\negress: {denied_domains: {a.example: 1}}": ["egress.denied_domains: is a mapping; write a list"],
    "mode: allow-all\negress: {denied_ports: true}": ["egress.denied_ports: is true or false; write a list"],
    # rules
    "mode: allow-all\nrules: [{}]": ["rules[0]: is empty; write an action, and domains, cidrs, ports or"],
    "mode: allow-all\nrules: [7]": ["rules[0]: is a number; write a mapping with some of: name, action, domains,"],
    "mode: allow-all\nrules: [{action: deny}]": ["rules[0]: matches nothing in particular; add domains, cidrs, ports"],
    "mode: allow-all\nrules: [{action: deny, name: x}]": ["rules[0]: matches nothing in particular"],
    "mode: allow-all\nrules: [{ports: [1]}]": ["rules[0]: has no action"],
    "mode: allow-all\nrules: [{action: , ports: [1]}]": ["rules[0].action: null is not known; write"],
    "mode: allow-all\nrules: [{action: denny, ports: [1]}]": ["(did you mean deny?)"],
    "mode: allow-all\nrules: [{action: DENY, ports: [1]}]": ['rules[0].action: "DENY" is not known'],
    "mode: allow-all\nrules: [{action: block, ports: [1]}]": ['write "allow" or "deny"'],
    "mode: allow-all\nrules: [{action: true, ports: [1]}]": ["rules[0].action: true is not known"],
    "mode: allow-all\nrules: [{action: deny, domains: []}]": ["rules[0].domains: is empty, and would match everything"],
    "mode: allow-all\nrules: [{action: deny, cidrs: []}]": ["rules[0].cidrs: is empty, and would match everything"],
    "mode: allow-all\nrules: [{action: deny, ports: []}]": ["rules[0].ports: is empty, and would match everything"],
    "mode: allow-all\nrules: [{action: deny, ports: [1], domains: []}]": ["rules[0].domains: is empty"],
    "mode: allow-all\nrules: [{action: deny, domains: }]": ["rules[0].domains: is empty; write a list"],
    "mode: allow-all\nrules: [{action: deny, domains: a.example}]": ["rules[0].domains: is text; write a list"],
    "mode: allow-all\nrules: [{action: deny, protocol: }]": ["rules[0].protocol: null is not known"],
    "mode: allow-all\nrules: [{action: deny, protocol: icmp}]": ['write "tcp" or "udp"'],
    "mode: allow-all\nrules: [{action: deny, protocol: [tcp]}]": ['rules[0].protocol: ["tcp"] is not known'],
    "mode: allow-all\nrules: [{action: deny, protocol: TCP}]": ['rules[0].protocol: "TCP" is not known'],
    "mode: allow-all\nrules: [{action: deny, protocol: tcp, ports: [1, 53/udp]}]": [
        'rules[0].ports[1]: "53/udp" can never match, because the rule has protocol: tcp; drop one of the two'
    ],
    "mode: allow-all\nrules: [{action: deny, ports: [1], name: 1}]": ["rules[0].name: 1 is not a name"],
    "mode: allow-all\nrules: [{action: deny, ports: [1], name: }]": ["rules[0].name: null is not a name"],
    "mode: allow-all\nrules: [{action: deny, ports: [1], name: ''}]": ['rules[0].name: "" is not a name'],
    "mode: allow-all\nrules: [{action: deny, ports: [1], name: '-x'}]": ['rules[0].name: "-x" is not a name; write'],
    'mode: allow-all\nrules: [{action: deny, ports: [1], name: "a\\nb"}]': [r'rules[0].name: "a\nb" is not a name'],
    f"mode: allow-all\nrules: [{{action: deny, ports: [1], name: {'x' * 64}}}]": ["is not a name"],
    "mode: allow-all\nrules: [{name: a, action: deny, ports: [1]}, {name: a, action: deny, ports: [2]}]": [
        'rules[1].name: "a" is also the name of rules[0]; give each its own'
    ],
    "mode: allow-all\nrules: [{action: allow, domains: ['*.com']}]": ['rules[0].domains[0]: "*.com" would grant every'],
    "mode: allow-all\nrules: [{action: deny, domains: ['']}]": ['rules[0].domains[0]: "" is blank'],
    "mode: allow-all\nrules: [{action: deny, domains: ['*']}]": ['rules[0].domains[0]: "*" would match every name'],
    "mode: allow-all\nrules: [{action: deny, cidrs: [10.0.0.1/8]}]": ['rules[0].cidrs[0]: "10.0.0.1/8" has host bits'],
    "mode: allow-all\nrules: [{action: deny, ports: [0]}]": ["rules[0].ports[0]: 0 is out of range"],
    # lists
    "mode: block-all\negress: {allowed_domains: [a.example, b.example, c.example, '*.com']}": [
        'egress.allowed_domains[3]: "*.com" would grant every site under com'
    ],
    "mode: block-all\negress: {allowed_domains: ['']}": ['egress.allowed_domains[0]: "" is blank'],
    "mode: block-all\negress: {allowed_domains: [[a.example]]}": ['egress.allowed_domains[0]: ["a.example"] is not'],
    "mode: block-all\negress: {allowed_domains: [192.0.2.1]}": ["addresses belong in allowed_cidrs"],
    "mode: block-all\negress: {allowed_cidrs: [10.2.0.1/16]}": [
        'egress.allowed_cidrs[0]: "10.2.0.1/16" has host bits set; did you mean "10.2.0.0/16"'
    ],
    "mode: block-all\negress: {allowed_cidrs: [a.example]}": ['egress.allowed_cidrs[0]: "a.example" is not an IPv4'],
    "mode: block-all\negress: {allowed_ports: [https]}": ['egress.allowed_ports[0]: "https" is not a port'],
    "mode: block-all\negress: {allowed_ports: [65536]}": ["egress.allowed_ports[0]: 65536 is out of range"],
    "mode: allow-all\negress: {denied_domains: ['']}": ['egress.denied_domains[0]: "" is blank'],
    "mode: allow-all\negress: {denied_cidrs: ['']}": ['egress.denied_cidrs[0]: ""'],
    "mode: allow-all\negress: {denied_ports: ['']}": ['egress.denied_ports[0]: ""'],
    "mode: allow-all\nhost_ports: [53/udp]": ['host_ports[0]: "53/udp" is UDP'],
    "mode: allow-all\nhost_ports: [0]": ["host_ports[0]: 0 is out of range"],
    # presets
    "mode: block-all\npresets: [pyton]": ['presets[0]: "pyton" is not a preset (did you mean python?)'],
    "mode: block-all\npresets: ['']": ['presets[0]: "" is not a preset', "`belljar policy presets` lists them"],
    "mode: block-all\npresets: [~]": ["presets[0]: null is not a preset; write its name, or {name: host}"],
    "mode: block-all\npresets: [[python]]": ['presets[0]: ["python"] is not a preset'],
    "mode: block-all\npresets: [Python]": ["(did you mean python?)"],
    "mode: block-all\npresets: [{}]": ["presets[0]: {} is not a preset"],
    "mode: block-all\npresets: [{python: a.example, node: b.example}]": ["presets[0]:", "is not a preset"],
    "mode: block-all\npresets: [{pyton: a.example}]": ["(did you mean python?)"],
    "mode: block-all\npresets: [{anthropic: a.example}]": ["has fixed hosts; write anthropic alone"],
    "mode: block-all\npresets: [{agent-default: a.example}]": ["has fixed hosts; write agent-default alone"],
    "mode: block-all\npresets: [{python: []}]": ["names no host"],
    "mode: block-all\npresets: [{python: }]": ["names a host that cannot be read: null is not text"],
    "mode: block-all\npresets: [{python: '*.com'}]": ['cannot be read: "*.com" would grant every site'],
    "mode: block-all\npresets: [{python: 'https://a.example/simple'}]": ["is a URL or a path"],
    "mode: block-all\npresets: [{python: [a.example, 192.0.2.1]}]": ["addresses belong in"],
    # services
    "{mode: block-all, services: }": ["services: is not a mapping; write names, and what each leads to"],
    "{mode: block-all, services: [anthropic]}": ["services: is not a mapping"],
    "{mode: block-all, services: {host: {port: 1}}}": ["services: 'host' is not the name of a service; write lower"],
    "{mode: block-all, services: {Web: {port: 1}}}": ["services: 'Web' is not the name of a service"],
    "{mode: block-all, services: {a.b: {port: 1}}}": ["services: 'a.b' is not the name of a service"],
    "{mode: block-all, services: {-a: {port: 1}}}": ["services: '-a' is not the name of a service"],
    "{mode: block-all, services: {'': {port: 1}}}": ["services: '' is not the name of a service"],
    "{mode: block-all, services: {web: 80}}": ["services.web: is a number; write a mapping with some of: port, socket"],
    "{mode: block-all, services: {web: []}}": ["services.web: is a list; write a mapping"],
    "{mode: block-all, services: {web: }}": ["services.web: does not say where it leads; write url, port, socket or"],
    "{mode: block-all, services: {web: {at: 80}}}": ["services.web: does not say where it leads"],
    "{mode: block-all, services: {antropic: {}}}": [
        "does not say where it leads (did you mean anthropic?); write url, port, socket or address, or one of the names"
    ],
    "{mode: block-all, services: {anthropic: {budget: {request: 1}}}}": [
        "'request' is nothing that is counted (did you mean requests?); write some of: requests"
    ],
    "{mode: block-all, services: {web: {prot: 80}}}": ["services.web.prot: is not a known key (did you mean port?)"],
    "{mode: block-all, services: {web: {port: 80, socket: /x}}}": [
        "services.web: leads to more than one thing: port and socket; keep one of them"
    ],
    "{mode: block-all, services: {web: {port: 80, header: {a: b}}}}": [
        "services.web.header: is for brokers; it goes with url, or the name of a provider"
    ],
    "{mode: block-all, services: {anthropic: {socket: /x, budget: {requests: 1}}}}": ["budget: is for brokers"],
    "{mode: block-all, services: {web: {port: 0}}}": ["services.web.port: is not a port; write a number from 1 to"],
    "{mode: block-all, services: {web: {port: 65536}}}": ["services.web.port: is not a port"],
    "{mode: block-all, services: {web: {port: '80'}}}": ["services.web.port: is not a port"],
    "{mode: block-all, services: {web: {port: true}}}": ["services.web.port: is not a port"],
    "{mode: block-all, services: {web: {port: 80, at: 0}}}": ["services.web.at: is not a port"],
    "{mode: block-all, services: {a: {socket: x.sock}}}": [
        "services.a.socket: is not the path of a unix socket; write"
    ],
    "{mode: block-all, services: {a: {socket: 1}}}": ["is not the path of a unix socket"],
    "{mode: block-all, services: {a: {socket: /run/../x}}}": ["write it from / on, without .."],
    "{mode: block-all, services: {a: {socket: /run/..}}}": ["write it from / on, without .."],
    '{mode: block-all, services: {a: {socket: "/run/\\0x"}}}': ["is not the path of a unix socket"],
    "{mode: block-all, services: {a: {address: 5432}}}": ["services.a.address: is not text; write HOST:PORT, such as"],
    "{mode: block-all, services: {a: {address: db.example}}}": ["services.a.address: has no port; write HOST:PORT"],
    "{mode: block-all, services: {a: {address: 'db.example:x'}}}": ["services.a.address: port 'x' is not a number"],
    "{mode: block-all, services: {a: {address: '127.0.0.1:80'}}}": [
        "services.a.address: 127.0.0.1 is loopback, link-local or reserved, and stays closed; for this machine, write"
    ],
    "{mode: block-all, services: {a: {address: '[::ffff:127.0.0.1]:80'}}}": ["and stays closed"],
    "{mode: block-all, services: {a: {address: '169.254.169.254:80'}}}": ["and stays closed"],
    "{mode: block-all, services: {a: {address: 'localhost:80'}}}": ["localhost means this machine or a metadata"],
    "{mode: block-all, services: {a: {address: 'metadata.google.internal:80'}}}": ["or a metadata service"],
    "{mode: block-all, services: {a: {address: 'host.docker.internal:80'}}}": ["for this machine, write port"],
    "{mode: block-all, services: {a: {address: 'b.belljar.internal:80'}}}": ["for this machine, write port"],
    "{mode: block-all, services: {a: {url: 1}}}": ["services.a.url: is not a URL; write one such as https://llm.corp"],
    "{mode: block-all, services: {a: {url: 'https://a.example/x y'}}}": ["services.a.url: is not a URL"],
    "{mode: block-all, services: {a: {url: 'https://a_b.example'}}}": [
        "services.a.url: has a host that cannot be read"
    ],
    "{mode: block-all, services: {a: {url: 'https://'}}}": ["services.a.url: has a host that cannot be read"],
    "{mode: block-all, services: {a: {url: 'ftp://a.example'}}}": ["services.a.url: is not a plain https URL"],
    "{mode: block-all, services: {a: {url: 'https://a.example?q=1'}}}": ["is not a plain https URL", "without a query"],
    "{mode: block-all, services: {a: {url: 'https://a.example/../x'}}}": ["has . or .. in its path"],
    "{mode: block-all, services: {a: {url: 'http://a.example'}}}": ["would send the key in the clear; write https"],
    "{mode: block-all, services: {anthropic: {header: x}}}": ["services.anthropic.header: is not a mapping; write {A"],
    "{mode: block-all, services: {anthropic: {header: {Host: x}}}}": ["'Host' is not a header that can be set"],
    "{mode: block-all, services: {anthropic: {header: {'a b': x}}}}": ["'a b' is not a header that can be set"],
    "{mode: block-all, services: {anthropic: {header: {a: 1}}}}": ["a has a value that is not plain text on one line"],
    '{mode: block-all, services: {anthropic: {header: {a: "x\\ny"}}}}': ["a has a value that is not plain text"],
    "{mode: block-all, services: {anthropic: {header: {a: $KEY}}}}": ["a has a $ that names no secret; write ${NAME}"],
    "{mode: block-all, services: {anthropic: {header: {a: '${1}'}}}}": ["a has a $ that names no secret"],
    "{mode: block-all, services: {anthropic: {header: {X-Api-Key: abc}}}}": [
        "X-Api-Key looks like a secret, which no policy may have in it; write ${NAME} instead"
    ],
    "{mode: block-all, services: {anthropic: {header: {a: x, A: y}}}}": ["A stands twice; keep one of them"],
    "{mode: block-all, services: {anthropic: {paths: POST /x}}}": ["services.anthropic.paths: is not a list of at"],
    "{mode: block-all, services: {anthropic: {paths: []}}}": ["paths: is empty, and would let nothing through"],
    "{mode: block-all, services: {anthropic: {paths: [/x]}}}": ["'/x' is no rule; write a method and a path, such as"],
    "{mode: block-all, services: {anthropic: {paths: [POST /*/*/*/*/*]}}}": ["is no rule"],
    "{mode: block-all, services: {anthropic: {paths: [POST //x]}}}": ["is no rule"],
    "{mode: block-all, services: {anthropic: {server_tools: true}}}": ['is neither "allow" nor "refuse"; write one of'],
    "{mode: block-all, services: {anthropic: {budget: 5}}}": ["budget: is not a budget; write a mapping with some of:"],
    "{mode: block-all, services: {anthropic: {budget: {}}}}": ["is not a budget"],
    "{mode: block-all, services: {anthropic: {budget: {euros: 5}}}}": [
        "budget: 'euros' is nothing",
        "some of: requests,",
    ],
    "{mode: block-all, services: {anthropic: {budget: {requests: 0}}}}": [
        "requests is not an amount; write a whole number"
    ],
    "{mode: block-all, services: {anthropic: {budget: {requests: 1.5}}}}": ["requests is not an amount"],
    "{mode: block-all, services: {anthropic: {budget: {requests: true}}}}": ["requests is not an amount"],
    "{mode: block-all, services: {anthropic: {budget: {requests: 1000000000000000}}}}": ["requests is not an amount"],
    "{mode: block-all, services: {anthropic: {budget: {dollars: -1}}}}": ["dollars is not an amount; write a number"],
    "{mode: block-all, services: {anthropic: {budget: {dollars: 0.00001}}}}": ["with at most 4 digits after the point"],
    "{mode: block-all, services: {anthropic: {shared_budget: {requests: 1}}}}": [
        "shared_budget: names no group; write"
    ],
    "{mode: block-all, services: {anthropic: {shared_budget: 1}}}": ["names no group"],
    "{mode: block-all, services: {anthropic: {shared_budget: {group: a b, requests: 1}}}}": [
        "group is not a name; write"
    ],
    "{mode: block-all, services: {anthropic: {shared_budget: {group: a}}}}": ["shared_budget: is not a budget"],
    # unknown keys, at each level
    "mode: block-all\negress: {allowedDomains: [], allowed_domains: []}": [
        "egress.allowed_domains: stands twice, as allowedDomains too; keep one of them"
    ],
    "mode: block-all\nallowed_domains: [a.example]": ["allowed_domains: is not a known key; it belongs under egress"],
    "mode: block-all\nallowedDomains: [a.example]": ["allowedDomains: is not a known key; it belongs under egress"],
    "mode: block-all\ndomains: [a.example]": ["domains: is not a known key; it belongs under a rule"],
    "mode: block-all\nruels: []": ["ruels: is not a known key (did you mean rules?)"],
    "mode: block-all\nallow-private: true": ["(did you mean allow_private?)"],
    "mode: block-all\nversion: 1": ["version: is not a known key; known here: mode, egress, rules, presets"],
    "mode: block-all\negress: {allow_domains: [a.example]}": ["(did you mean allowed_domains?)"],
    "mode: block-all\negress: {allowed_domain: [a.example]}": ["egress.allowed_domain: is not a known key"],
    "mode: block-all\negress: {rules: []}": ["egress.rules: is not a known key; it belongs at the top level"],
    "mode: block-all\negress: {mode: allow-all}": ["egress.mode: is not a known key; it belongs at the top level"],
    "mode: block-all\negress: {host_ports: [1]}": [
        "egress.host_ports: is not a known key; it belongs at the top level"
    ],
    "mode: block-all\negress: {action: deny}": ["egress.action: is not a known key; it belongs under a rule"],
    "mode: block-all\nrules: [{action: deny, domain: [a.example]}]": ["(did you mean domains?)"],
    "mode: block-all\nrules: [{action: deny, ports: [1], port: 1}]": ["rules[0].port: is not a known key"],
    "mode: block-all\nrules: [{action: deny, ports: [1], mode: allow-all}]": ["rules[0].mode: is not a known key"],
    "mode: block-all\nrules: [{action: deny, allowed_domains: [a.example]}]": ["it belongs under egress"],
    "mode: block-all\n'': 1": ["is not a known key"],
    "mode: block-all\n'a[b]': 1": ["a[b]: is not a known key"],
    "mode: block-all\n'a[-1]': 1": ["a[-1]: is not a known key"],
    "mode: block-all\n']': 1": ["]: is not a known key"],
    f"mode: block-all\n{'k' * 500}: 1": [f'"{"k" * 299}…: is not a known key'],
    "mode: block-all\negress: {'x[0]': 1}": ["egress.x[0]: is not a known key"],
}


@pytest.mark.parametrize(("text", "messages"), PROBLEMS.items(), ids=map(shown, PROBLEMS))
def test_each_problem_names_the_entry_and_the_remedy(text, messages):
    report = "\n".join(map(str, problems(text)))
    for message in messages:
        assert message in report


@pytest.mark.parametrize("text", PROBLEMS, ids=shown)
def test_each_problem_knows_its_line(text):
    lines = text.count("\n") + 1
    for problem in problems(text):
        if "is missing" not in problem.message and "has no action" not in problem.message:
            assert problem.line == lines


def test_all_problems_of_a_document_are_reported_at_once():
    text = """\
mode: open
egress:
  allowed_domains: ["*.com", ok.example, "http://x.example"]
  allowed_cidrs: [10.0.0.1/8]
  alowed_ports: [443]
rules:
  - {action: permit, domains: [""]}
  - {action: deny}
presets: [pyton]
host_ports: [0]
allow_private: maybe
extra: 1
"""
    assert [(problem.where, problem.line) for problem in problems(text)] == [
        ("mode", 1),
        ("egress.allowed_domains[0]", 3),
        ("egress.allowed_domains[2]", 3),
        ("egress.allowed_cidrs[0]", 4),
        ("egress.alowed_ports", 5),
        ("rules[0].action", 7),
        ("rules[0].domains[0]", 7),
        ("rules[1]", 8),
        ("presets[0]", 9),
        ("host_ports[0]", 10),
        ("allow_private", 11),
        ("extra", 12),
    ]


def test_all_problems_of_services_are_reported_at_once():
    text = """\
mode: block-all
services:
  anthropic:
    budget: {request: 1, dollars: -1}
    shared_budget: {group: a b, requests: 0}
    paths: [/v1, "GET v1"]
    header: {x-key: abc, host: a}
    server_tools: maybe
  models: {url: "http://x.example", at: 0}
  db: {address: x, budget: {requests: 1}}
  web: {prot: 8080, at: 0}
  Bad: {}
  two: {port: 1, url: "https://a.example", at: hello}
  last: {at: 1}
"""
    assert [(problem.where.removeprefix("services."), problem.line) for problem in problems(text)] == [
        *[("anthropic.budget", 4)] * 2,
        *[("anthropic.shared_budget", 5)] * 2,
        *[("anthropic.paths", 6)] * 2,
        *[("anthropic.header", 7)] * 2,
        ("anthropic.server_tools", 8),
        *[("models.url", 9), ("models.at", 9)],
        *[("db.address", 10), ("db.budget", 10)],
        *[("web.prot", 11), ("web.at", 11)],
        ("services", 12),
        *[("two", 13), ("two.at", 13)],
        ("last", 14),
    ]


UNPRINTABLE = ["a\nb", "a\x1b[31mb", "a\0b", "\ud800", "\u202eb", "\r", "\x85", "\u2028"]


@pytest.mark.parametrize("text", UNPRINTABLE, ids=ascii)
@pytest.mark.parametrize(
    "place",
    [
        lambda text: {"mode": text},
        lambda text: {"mode": "block-all", text: 1},
        lambda text: {"mode": "block-all", "egress": {text: 1}},
        lambda text: {"mode": "block-all", "egress": text},
        lambda text: {"mode": "block-all", "egress": {"allowed_domains": text}},
        lambda text: {"mode": "block-all", "egress": {"allowed_domains": [text]}},
        lambda text: {"mode": "block-all", "egress": {"allowed_domains": [f"a.example:{text}"]}},
        lambda text: {"mode": "block-all", "egress": {"allowed_cidrs": [text]}},
        lambda text: {"mode": "block-all", "egress": {"allowed_cidrs": [f"10.0.0.0/{text}"]}},
        lambda text: {"mode": "block-all", "egress": {"allowed_ports": [text]}},
        lambda text: {"mode": "block-all", "rules": text},
        lambda text: {"mode": "block-all", "rules": [{text: 1}]},
        lambda text: {"mode": "block-all", "rules": [{"action": text}]},
        lambda text: {"mode": "block-all", "rules": [{"action": "deny", "ports": [1], "name": text}]},
        lambda text: {"mode": "block-all", "rules": [{"action": "deny", "protocol": text}]},
        lambda text: {"mode": "block-all", "presets": [text]},
        lambda text: {"mode": "block-all", "presets": [{text: 1}]},
        lambda text: {"mode": "block-all", "presets": [{"python": text}]},
        lambda text: {"mode": "block-all", "services": {text: {"port": 1}}},
        lambda text: {"mode": "block-all", "services": {"a": {text: 1}}},
        lambda text: {"mode": "block-all", "services": {"a": {"socket": text}}},
        lambda text: {"mode": "block-all", "services": {"a": {"address": text}}},
        lambda text: {"mode": "block-all", "services": {"a": {"address": f"a.example:{text}"}}},
        lambda text: {"mode": "block-all", "services": {"a": {"url": f"https://a.example:{text}"}}},
        lambda text: {"mode": "block-all", "services": {"anthropic": {"header": {text: "x"}}}},
        lambda text: {"mode": "block-all", "services": {"anthropic": {"header": {"a": text}}}},
        lambda text: {"mode": "block-all", "services": {"anthropic": {"paths": [text]}}},
        lambda text: {"mode": "block-all", "services": {"anthropic": {"budget": {text: 1}}}},
        lambda text: {"mode": "block-all", "services": {"anthropic": {"shared_budget": {"group": text}}}},
        lambda text: {"mode": "block-all", "allow_private": text},
    ],
)
def test_whatever_a_document_holds_its_problems_are_lines_that_can_be_printed(place, text):
    """A policy may come from somebody else; what it says must not move the reader's cursor."""
    for problem in problems(json.dumps(place(text)), Syntax.JSON):
        assert str(problem).isprintable()


@pytest.mark.parametrize("size", [200, 1000, 100_000])
def test_long_entries_are_cut_in_messages(size):
    for name, key, value in (
        ("x" * size, "port", 1),
        ("anthropic", "paths", ["x" * size]),
        ("anthropic", "header", {"x" * size: ""}),
    ):
        [problem] = problems(json.dumps({"mode": "block-all", "services": {name: {key: value}}}), Syntax.JSON)
        assert len(str(problem)) < 1000
    for entry in ("x" * size, "a." * size + "example", ["x" * size], "*" * size):
        [problem] = problems(json.dumps({"mode": "block-all", "egress": {"allowed_domains": [entry]}}), Syntax.JSON)
        assert len(str(problem)) < 1000


SECRET = "sk-hush-0123456789"


@pytest.mark.parametrize(
    "entry",
    [
        {"header": {"Authorization": f"Bearer {SECRET}"}},
        {"header": {"X-Api-Key": SECRET}},
        {"header": {"X-Api-Key": f"{SECRET}\n"}},
        {"header": {"X-Auth": [SECRET]}},
        {"header": {"X-Team": f"$\x7b{SECRET}\x7d"}},
        {"header": f"X-Api-Key: {SECRET}"},
        {"header": [SECRET]},
        {"url": f"https://me:{SECRET}@llm.corp.example"},
        {"url": f"https://{SECRET}@llm.corp.example"},
        {"url": f"https://llm.corp.example/v1?key={SECRET}"},
        {"url": f"https://llm.corp.example/v1#{SECRET}"},
        {"server_tools": SECRET},
        {"budget": {"requests": SECRET}},
        {"shared_budget": {"group": f"{SECRET} "}},
    ],
    ids=shown,
)
def test_a_secret_is_refused_and_not_repeated(entry):
    for problem in problems(json.dumps({"mode": "block-all", "services": {"anthropic": entry}}), Syntax.JSON):
        assert "hush" not in str(problem)


def test_every_key_of_the_model_can_be_written():
    assert set(DOCUMENT_KEYS) == set(Policy._fields)
    assert set(EGRESS_KEYS) == set(Egress._fields)
    assert set(RULE_KEYS) == set(Rule._fields)


# Every way to break a document leads to InvalidPolicyError.

WHOLE: dict[str, Any] = {
    "mode": "allow-all",
    "egress": {
        "allowed_domains": ["a.example"],
        "allowed_cidrs": ["192.0.2.0/24"],
        "allowed_ports": [443],
        "denied_domains": ["b.example"],
        "denied_cidrs": ["198.51.100.0/24"],
        "denied_ports": [25],
    },
    "rules": [{"name": "r", "action": "deny", "domains": ["c.example"], "cidrs": ["10.0.0.0/8"], "ports": [1]}],
    "presets": ["anthropic", {"python": "registry.corp.example"}],
    "host_ports": [5432],
    "services": {
        "web": {"port": 8080, "at": 80},
        "tool": {"socket": "/run/tool.sock"},
        "db": {"address": "10.1.2.3:5432"},
        "llm": {
            "url": "https://llm.corp.example/v1",
            "header": {"x-api-key": "${KEY}"},
            "paths": ["POST /v1/messages"],
            "server_tools": "allow",
            "budget": {"requests": 1, "dollars": 2},
            "shared_budget": {"group": "nightly", "requests": 1},
        },
    },
    "allow_private": False,
}
PLACES: list[tuple[str | int, ...]] = [
    ("mode",),
    ("egress",),
    *(("egress", key) for key in WHOLE["egress"]),
    *(("egress", key, 0) for key in WHOLE["egress"]),
    ("rules",),
    ("rules", 0),
    *(("rules", 0, key) for key in WHOLE["rules"][0]),
    *(("rules", 0, key, 0) for key in ("domains", "cidrs", "ports")),
    ("presets",),
    ("presets", 0),
    ("presets", 1),
    ("presets", 1, "python"),
    ("host_ports",),
    ("host_ports", 0),
    ("services",),
    *(("services", name) for name in WHOLE["services"]),
    *(("services", name, key) for name, entry in WHOLE["services"].items() for key in entry),
    ("allow_private",),
]
WRONG: list[Any] = [
    None,
    "",
    " ",
    "*",
    -1,
    0,
    1.5,
    [None],
    [""],
    ["*"],
    [[]],
    [{}],
    {"": ""},
    {"mode": "allow-all"},
    "no such thing",
]


def replaced(place: tuple[str | int, ...], value: object) -> str:
    document = copy.deepcopy(WHOLE)
    inner: Any = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return json.dumps(document)


def test_the_whole_document_is_good_before_it_is_broken():
    assert read(json.dumps(WHOLE), Syntax.JSON).mode is Mode.ALLOW_ALL


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.parametrize("syntax", [Syntax.JSON, Syntax.YAML])
def test_a_wrong_value_anywhere_is_an_error_at_that_place(place, syntax):
    where = re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, place)))
    above = where if place[:2] != ("presets", 1) else "presets[1]"
    for value in WRONG:
        if place == ("rules", 0, "name") and value in ("no such thing", 1.5):
            continue  # names, the second in YAML only
        if place == ("services", "llm", "header") and value == {"mode": "allow-all"}:
            continue  # a header like any other
        found = problems(replaced(place, value), syntax)
        assert any(problem.where.startswith(above) for problem in found), value


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_no_document_with_an_unknown_key_is_read(place):
    document = json.loads(replaced(place, {"surprise": True}))
    problems(json.dumps(document), Syntax.JSON)


@unhurried
@given(st.data())
def test_a_document_cut_short_or_with_a_character_changed_never_opens(data):
    """A truncated file or a flipped character gives an error or a policy that says the same mode; never another."""
    at = data.draw(st.integers(0, len(EVERYTHING) - 1))
    if data.draw(st.booleans()):
        text = EVERYTHING[:at]
    else:
        text = EVERYTHING[:at] + data.draw(st.sampled_from("\n :-[]{}\"'#*&!|>%@`,?x0\0\t")) + EVERYTHING[at + 1 :]
    try:
        policy = read(text)
    except InvalidPolicyError:
        return
    assert policy.mode is Mode.BLOCK_ALL


plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([*DOCUMENT_KEYS, *Mode, "a.example", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*DOCUMENT_KEYS, *EGRESS_KEYS, *RULE_KEYS, "python", "allowPrivate", "x[y]", ""])
            | st.integers(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@unhurried
@given(plain_data)
def test_any_data_is_a_policy_that_compiles_or_an_error(data):
    try:
        document = policy_from(Reading(data))
        compile_policy(document.policy)
    except InvalidPolicyError as error:
        assert all(str(problem).isprintable() for problem in error.problems)
    else:
        assert data["mode"] in tuple(Mode)


def test_no_reader_changes_its_input():
    data = json.loads(json.dumps(WHOLE))
    policy_from(Reading(data))
    assert data == WHOLE


def test_warnings_know_their_line():
    document = read_policy(
        "mode: block-all\negress:\n  denied_ports: [1]\n  allowed_cidrs:\n  - 127.0.0.1\n", Syntax.YAML
    )
    assert [(warning.where, warning.line) for warning in document.warnings] == [
        ("egress.denied_ports", 3),
        ("egress.allowed_cidrs[0]", 5),
    ]
