"""The one decision, as tables: a policy, and what it says to each flow.

A line of a table is a flow (see `tests.policy.documents.flow`) and, after a run of spaces, action, reason and the place
in the document that decided.
"""

import re
import textwrap
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from _pytest.mark import ParameterSet

from belljar.policy import Flow, Mode, Protocol, Reason, to_address, to_name, without_policy
from belljar.policy.reasons import SENTENCES
from belljar.policy.services import ServiceKind
from tests.policy.documents import compiled, flow, outcome

HOST = tuple(map(ip_address, ("198.51.100.7", "2001:db8::7", "10.9.9.9")))
"""The addresses of the host in all tables."""

TABLES = {
    "block-all, nothing granted": (
        "mode: block-all",
        """
        a.example:443                          deny not_allowed_domain mode
        a.example:80                           deny not_allowed_domain mode
        a.example?                             deny not_allowed_domain mode
        a.example:443 = 192.0.2.1              deny not_allowed_domain mode
        192.0.2.1:443                          deny not_allowed_address mode
        [2001:db8::1]:443                      deny not_allowed_address mode
        192.0.2.1:443 as a.example             deny not_allowed_address mode
        10.0.0.1:443                           deny not_allowed_address mode
        a.example:53/udp                       deny udp_blocked mode
        192.0.2.1:53/udp                       deny udp_blocked mode
        host.belljar.internal:80               deny host_port_not_allowed host_ports
        host.belljar.internal?                 deny host_port_not_allowed host_ports
        localhost:80                           deny reserved_name -
        127.0.0.1:80                           deny reserved_address -
        169.254.169.254:80                     deny reserved_address -
        metadata.google.internal:80            deny reserved_name -
        """,
    ),
    "allow-all, international names denied": (
        "mode: allow-all\negress: {denied_domains: [ΝΕΟΣ-ΚΟΣΜΟΣ.example, faß.example, '*.νεος.example']}",
        """
        xn----6lbqibncb5adc.example:443        deny denied_domain egress.denied_domains[0]
        xn----6lbqibncb4adc.example:443        allow allowed_by_default mode
        xn--fa-hia.example:443                 deny denied_domain egress.denied_domains[1]
        fass.example:443                       deny denied_domain egress.denied_domains[1]
        a.fass.example?                        deny denied_domain egress.denied_domains[1]
        fas.example:443                        allow allowed_by_default mode
        a.xn--qxaphm.example:443               deny denied_domain egress.denied_domains[2]
        a.xn--qxaphq.example:443               deny denied_domain egress.denied_domains[2]
        xn--qxaphq.example:443                 allow allowed_by_default mode
        """,
    ),
    "block-all, international names granted": (
        "mode: block-all\negress: {allowed_domains: [ΝΕΟΣ-ΚΟΣΜΟΣ.example, faß.example]}",
        """
        xn----6lbqibncb5adc.example:443        allow allowed_domain egress.allowed_domains[0]
        xn--fa-hia.example:443                 allow allowed_domain egress.allowed_domains[1]
        fass.example:443                       deny not_allowed_domain mode
        """,
    ),
    "allow-all, nothing denied": (
        "mode: allow-all",
        """
        a.example:443                          allow allowed_by_default mode
        a.example:1                            allow allowed_by_default mode
        a.example:65535                        allow allowed_by_default mode
        a.example?                             allow allowed_by_default mode
        a.example:443 = 192.0.2.1 2001:db8::1  allow allowed_by_default mode
        a.example:443/udp                      allow allowed_by_default mode
        192.0.2.1:443                          allow allowed_by_default mode
        192.0.2.1:53/udp                       allow allowed_by_default mode
        [2001:db8::1]:443                      allow allowed_by_default mode
        [::ffff:192.0.2.1]:443                 allow allowed_by_default mode
        192.0.2.1:443 as a.example             allow allowed_by_default mode
        10.0.0.1:443                           deny reserved_address allow_private
        [fd00::1]:443                          deny reserved_address allow_private
        [64:ff9b::a00:1]:443                   deny reserved_address allow_private
        a.example:443 = 10.0.0.1               deny reserved_address allow_private
        a.example:443 = 192.0.2.1 10.0.0.1     deny reserved_address allow_private
        a.example:443 = 192.0.2.1 127.0.0.1    deny reserved_address -
        a.example:443 = ::ffff:169.254.169.254 deny reserved_address -
        a.example:443/udp = 10.0.0.1           deny reserved_address allow_private
        127.0.0.1:80                           deny reserved_address -
        [::1]:80                               deny reserved_address -
        0.0.0.0:80                             deny reserved_address -
        169.254.169.254:80                     deny reserved_address -
        100.100.100.200:80                     deny reserved_address -
        168.63.129.16:80                       deny reserved_address -
        [fd00:ec2::254]:80                     deny reserved_address -
        [64:ff9b::a9fe:a9fe]:80                deny reserved_address -
        [2002:a9fe:a9fe::]:80                  deny reserved_address -
        [fe80::1]:80                           deny reserved_address -
        224.0.0.1:80                           deny reserved_address -
        198.18.0.1:443                         deny reserved_address -
        198.51.100.7:443                       deny reserved_address -
        [::ffff:198.51.100.7]:443              deny reserved_address -
        [2001:db8::7]:443                      deny reserved_address -
        a.example:443 = 198.51.100.7           deny reserved_address -
        a.example:443 = 192.0.2.1 2001:db8::7  deny reserved_address -
        host.belljar.internal:22               deny host_port_not_allowed host_ports
        host.docker.internal:22                deny host_port_not_allowed host_ports
        host.docker.internal:22/udp            deny host_port_not_allowed host_ports
        """,
    ),
    "names that are never open": (
        """
        mode: block-all
        egress:
          allowed_domains: [localhost, a.localhost, metadata, metadata.google.internal, instance-data,
                            instance-data.ec2.internal, host.containers.internal, gateway.docker.internal]
        rules: [{action: allow, domains: [localhost, metadata.google.internal]}, {action: allow, ports: [443]}]
        allow_private: true
        """,
        """
        localhost:443                          deny reserved_name -
        localhost?                             deny reserved_name -
        a.localhost:443                        deny reserved_name -
        metadata:443                           deny reserved_name -
        metadata.google.internal:443           deny reserved_name -
        metadata.google.internal?              deny reserved_name -
        instance-data:443                      deny reserved_name -
        instance-data.ec2.internal:443         deny reserved_name -
        host.containers.internal:443           deny reserved_name -
        gateway.docker.internal:443            deny reserved_name -
        192.0.2.1:443 as localhost             deny reserved_name -
        192.0.2.1:443 as metadata.google.internal  deny reserved_name -
        localhost:443 = 192.0.2.1              deny reserved_name -
        localhosts.example:443                 allow allowed_by_rule rules[1]
        """,
    ),
    "names of a cloud or a cluster": (
        "mode: allow-all",
        """
        a.internal:443                         deny reserved_name mode
        internal:443                           deny reserved_name mode
        a.internal?                            deny reserved_name mode
        a.b.internal:443/udp                   deny reserved_name mode
        kubernetes.default:443                 deny reserved_name mode
        kubernetes.default.svc:443             deny reserved_name mode
        kubernetes.default.svc.cluster.local:443  deny reserved_name mode
        x.kubernetes.default.svc:443           deny reserved_name mode
        other.default.svc:443                  allow allowed_by_default mode
        internal.example:443                   allow allowed_by_default mode
        ainternal:443                          allow allowed_by_default mode
        """,
    ),
    "such names, opened in allow-all by a rule that names them": (
        """
        mode: allow-all
        rules:
        - {action: allow, domains: [a.internal, "*.corp.internal"]}
        - {action: allow, ports: [8080]}
        """,
        """
        a.internal:443                         allow allowed_by_rule rules[0]
        a.internal?                            allow allowed_by_rule rules[0]
        b.corp.internal:80                     allow allowed_by_rule rules[0]
        corp.internal:443                      deny reserved_name mode
        a.internal:8080                        deny reserved_name mode
        a.internal:22                          deny reserved_name mode
        b.internal:443                         deny reserved_name mode
        b.internal:8080                        deny reserved_name mode
        a.internal:443 = 10.0.0.1              deny reserved_address allow_private
        """,
    ),
    "the rule that names them may come after one that names ports": (
        """
        mode: allow-all
        rules:
        - {action: allow, ports: [443, 8080]}
        - {action: allow, domains: [a.internal]}
        """,
        """
        a.internal:443                         allow allowed_by_rule rules[0]
        a.internal:80                          allow allowed_by_rule rules[1]
        a.internal?                            allow allowed_by_rule rules[0]
        a.internal:8080                        deny reserved_name mode
        b.internal:443                         deny reserved_name mode
        b.internal?                            deny reserved_name mode
        """,
    ),
    "such names, granted in block-all": (
        """
        mode: block-all
        egress: {allowed_domains: [a.internal, "*.kubernetes.default.svc"], allowed_cidrs: [10.0.0.0/8]}
        """,
        """
        a.internal:443                         allow allowed_domain egress.allowed_domains[0]
        a.internal:443 = 10.0.0.1              allow allowed_domain egress.allowed_domains[0]
        b.internal:443                         deny not_allowed_domain mode
        x.kubernetes.default.svc:443           allow allowed_domain egress.allowed_domains[1]
        kubernetes.default.svc:443             deny not_allowed_domain mode
        """,
    ),
    "domains": (
        """
        mode: block-all
        egress: {allowed_domains: [a.example, "*.b.example", .c.example, "d.example:22", bücher.example]}
        """,
        """
        a.example:443                          allow allowed_domain egress.allowed_domains[0]
        a.example:80                           allow allowed_domain egress.allowed_domains[0]
        A.EXAMPLE.:443                         allow allowed_domain egress.allowed_domains[0]
        a.example?                             allow allowed_domain egress.allowed_domains[0]
        a.example:8080                         deny port_not_allowed egress.allowed_domains[0]
        a.example:79                           deny port_not_allowed egress.allowed_domains[0]
        a.example:81                           deny port_not_allowed egress.allowed_domains[0]
        a.example:442                          deny port_not_allowed egress.allowed_domains[0]
        a.example:444                          deny port_not_allowed egress.allowed_domains[0]
        a.example:443/udp                      deny udp_blocked mode
        x.a.example:443                        deny not_allowed_domain mode
        x.a.example?                           deny not_allowed_domain mode
        xa.example:443                         deny not_allowed_domain mode
        a.example.evil.example:443             deny not_allowed_domain mode
        example:443                            deny not_allowed_domain mode
        b.example:443                          deny not_allowed_domain mode
        x.b.example:443                        allow allowed_domain egress.allowed_domains[1]
        x.y.b.example:443                      allow allowed_domain egress.allowed_domains[1]
        xb.example:443                         deny not_allowed_domain mode
        c.example:443                          allow allowed_domain egress.allowed_domains[2]
        x.c.example:443                        allow allowed_domain egress.allowed_domains[2]
        d.example:22                           allow allowed_domain egress.allowed_domains[3]
        d.example:443                          deny port_not_allowed egress.allowed_domains[3]
        d.example?                             allow allowed_domain egress.allowed_domains[3]
        xn--bcher-kva.example:443              allow allowed_domain egress.allowed_domains[4]
        BÜCHER.example:443                     allow allowed_domain egress.allowed_domains[4]
        192.0.2.1:443 as a.example             deny not_allowed_address mode
        a.example:443 as a.example             allow allowed_domain egress.allowed_domains[0]
        a.example:443 as x.b.example           deny name_mismatch -
        a.example:443 as evil.example          deny name_mismatch -
        """,
    ),
    "allowed ports replace 80 and 443, not an entry's own": (
        """
        mode: block-all
        egress:
          allowed_domains: [a.example, "a.example:22", "b.example:5432"]
          allowed_cidrs: [192.0.2.0/24]
          allowed_ports: [443, 8000-8100, 53/udp]
        """,
        """
        a.example:443                          allow allowed_domain egress.allowed_domains[0]
        a.example:8000                         allow allowed_domain egress.allowed_domains[0]
        a.example:8100                         allow allowed_domain egress.allowed_domains[0]
        a.example:7999                         deny port_not_allowed egress.allowed_domains[0]
        a.example:8101                         deny port_not_allowed egress.allowed_domains[0]
        a.example:80                           deny port_not_allowed egress.allowed_domains[0]
        a.example:53                           deny port_not_allowed egress.allowed_domains[0]
        a.example:53/udp                       deny udp_blocked mode
        a.example:22                           allow allowed_domain egress.allowed_domains[1]
        b.example:5432                         allow allowed_domain egress.allowed_domains[2]
        b.example:443                          deny port_not_allowed egress.allowed_domains[2]
        192.0.2.1:8050                         allow allowed_cidr egress.allowed_cidrs[0]
        192.0.2.1:22                           deny port_not_allowed egress.allowed_cidrs[0]
        c.example:443                          deny not_allowed_domain mode
        """,
    ),
    "cidrs": (
        """
        mode: block-all
        egress: {allowed_cidrs: [192.0.2.0/25, 10.2.0.0/16, "2001:db8::/32", 127.0.0.0/8, 169.254.169.254]}
        """,
        """
        192.0.2.1:443                          allow allowed_cidr egress.allowed_cidrs[0]
        192.0.2.127:1                          allow allowed_cidr egress.allowed_cidrs[0]
        192.0.2.127:65535                      allow allowed_cidr egress.allowed_cidrs[0]
        192.0.2.128:443                        deny not_allowed_address mode
        192.0.2.1:53/udp                       deny udp_blocked mode
        10.2.3.4:22                            allow allowed_cidr egress.allowed_cidrs[1]
        10.3.0.1:22                            deny not_allowed_address mode
        [::ffff:10.2.3.4]:22                   allow allowed_cidr egress.allowed_cidrs[1]
        [2001:db8::1]:443                      allow allowed_cidr egress.allowed_cidrs[2]
        [2001:db8::7]:443                      deny reserved_address -
        127.0.0.1:443                          deny reserved_address -
        169.254.169.254:80                     deny reserved_address -
        [::ffff:127.0.0.1]:80                  deny reserved_address -
        a.example:443                          deny not_allowed_domain mode
        a.example:443 = 192.0.2.1              deny not_allowed_domain mode
        a.example?                             deny not_allowed_domain mode
        192.0.2.1:443 as evil.example          allow allowed_cidr egress.allowed_cidrs[0]
        """,
    ),
    "everything granted by address is still not the host, nor what is never open": (
        "{mode: block-all, egress: {allowed_cidrs: [0.0.0.0/0, '::/0']}, allow_private: true}",
        """
        192.0.2.1:443                          allow allowed_cidr egress.allowed_cidrs[0]
        10.0.0.1:443                           allow allowed_cidr egress.allowed_cidrs[0]
        [2001:db8::1]:443                      allow allowed_cidr egress.allowed_cidrs[1]
        [fd00::1]:443                          allow allowed_cidr egress.allowed_cidrs[1]
        198.51.100.7:443                       deny reserved_address -
        10.9.9.9:443                           deny reserved_address -
        [64:ff9b::a09:909]:443                 deny reserved_address -
        127.0.0.1:443                          deny reserved_address -
        169.254.169.254:80                     deny reserved_address -
        [fd00:ec2::254]:80                     deny reserved_address -
        [::1]:443                              deny reserved_address -
        a.example:443                          deny not_allowed_domain mode
        """,
    ),
    "a range of IPv6 does not grant the IPv4 inside it": (
        "{mode: block-all, egress: {allowed_cidrs: ['64:ff9b::/96', '2001::/32', '2002::/16', '::/0']}}",
        """
        [64:ff9b::c000:201]:443                deny not_allowed_address mode
        [::ffff:192.0.2.1]:443                 deny not_allowed_address mode
        [2002:a00:1::]:443                     deny not_allowed_address mode
        192.0.2.1:443                          deny not_allowed_address mode
        [2001:db8::1]:443                      allow allowed_cidr egress.allowed_cidrs[3]
        """,
    ),
    "a range of mapped addresses is the IPv4 range": (
        "{mode: block-all, egress: {allowed_cidrs: ['::ffff:192.0.2.0/120', '::ffff:10.0.0.1']}}",
        """
        192.0.2.1:443                          allow allowed_cidr egress.allowed_cidrs[0]
        [::ffff:192.0.2.1]:443                 allow allowed_cidr egress.allowed_cidrs[0]
        10.0.0.1:22                            allow allowed_cidr egress.allowed_cidrs[1]
        192.0.3.1:443                          deny not_allowed_address mode
        """,
    ),
    "a range of mapped addresses denies the IPv4 range": (
        "{mode: allow-all, egress: {denied_cidrs: ['::ffff:192.0.2.0/120']}}",
        """
        192.0.2.1:443                          deny denied_cidr egress.denied_cidrs[0]
        [::ffff:192.0.2.1]:443                 deny denied_cidr egress.denied_cidrs[0]
        [64:ff9b::c000:201]:443                deny denied_cidr egress.denied_cidrs[0]
        192.0.3.1:443                          allow allowed_by_default mode
        """,
    ),
    "names that resolve to private addresses": (
        """
        mode: block-all
        egress: {allowed_domains: [a.example, "db.example:5432"], allowed_cidrs: [10.2.0.0/16], allowed_ports: [443]}
        """,
        """
        a.example:443                          allow allowed_domain egress.allowed_domains[0]
        a.example:443 = 192.0.2.1              allow allowed_domain egress.allowed_domains[0]
        a.example:443 = 10.2.0.1               allow allowed_domain egress.allowed_domains[0]
        a.example:443 = 192.0.2.1 10.2.0.1     allow allowed_domain egress.allowed_domains[0]
        a.example:443 = 64:ff9b::a02:1         allow allowed_domain egress.allowed_domains[0]
        a.example:443 = 10.3.0.1               deny reserved_address allow_private
        a.example:443 = 10.2.0.1 10.3.0.1      deny reserved_address allow_private
        a.example:443 = 192.0.2.1 10.3.0.1     deny reserved_address allow_private
        a.example:443 = fd00::1                deny reserved_address allow_private
        a.example:443 = 10.2.0.1 127.0.0.1     deny reserved_address -
        db.example:5432 = 10.2.0.1             allow allowed_domain egress.allowed_domains[1]
        b.example:443 = 10.2.0.1               deny not_allowed_domain mode
        10.2.0.1:5432                          deny port_not_allowed egress.allowed_cidrs[0]
        """,
    ),
    "allow_private in block-all": (
        "{mode: block-all, egress: {allowed_domains: [a.example], allowed_cidrs: [10.0.0.0/8]}, allow_private: true}",
        """
        a.example:443 = 192.168.1.1            allow allowed_domain egress.allowed_domains[0]
        a.example:443 = fd00::1 192.0.2.1      allow allowed_domain egress.allowed_domains[0]
        a.example:443 = 169.254.1.1            deny reserved_address -
        a.example:443 = 10.9.9.9               deny reserved_address -
        192.168.1.1:443                        deny not_allowed_address mode
        10.0.0.1:443                           allow allowed_cidr egress.allowed_cidrs[0]
        """,
    ),
    "allow_private in allow-all": (
        "{mode: allow-all, allow_private: true}",
        """
        10.0.0.1:443                           allow allowed_by_default mode
        [fd00::1]:443                          allow allowed_by_default mode
        a.example:443 = 10.0.0.1 192.0.2.1     allow allowed_by_default mode
        10.9.9.9:443                           deny reserved_address -
        169.254.169.254:80                     deny reserved_address -
        100.100.100.200:80                     deny reserved_address -
        [fd00:ec2::254]:80                     deny reserved_address -
        a.internal:443                         deny reserved_name mode
        """,
    ),
    "lists that have no effect in the mode have none": (
        """
        mode: allow-all
        egress: {allowed_domains: [a.internal, a.example], allowed_cidrs: [10.0.0.0/8], allowed_ports: [443]}
        presets: [anthropic]
        """,
        """
        a.internal:443                         deny reserved_name mode
        10.0.0.1:443                           deny reserved_address allow_private
        a.example:443 = 10.0.0.1               deny reserved_address allow_private
        b.example:22                           allow allowed_by_default mode
        """,
    ),
    "denials in block-all have none either": (
        """
        mode: block-all
        egress:
          allowed_domains: [a.example]
          denied_domains: [a.example]
          denied_cidrs: [0.0.0.0/0]
          denied_ports: [443]
        """,
        """
        a.example:443 = 192.0.2.1              allow allowed_domain egress.allowed_domains[0]
        """,
    ),
    "denials": (
        """
        mode: allow-all
        egress:
          denied_domains: [a.example, "*.b.example", "c.example:443", .d.example]
          denied_cidrs: [192.0.2.0/24, "2001:db8:1::/48", "64:ff9b::cb00:7100/120"]
          denied_ports: [25, 6000-6010, 53/udp, 22/tcp]
        """,
        """
        a.example:443                          deny denied_domain egress.denied_domains[0]
        x.a.example:443                        deny denied_domain egress.denied_domains[0]
        a.example:443/udp                      deny denied_domain egress.denied_domains[0]
        a.example?                             deny denied_domain egress.denied_domains[0]
        x.a.example?                           deny denied_domain egress.denied_domains[0]
        xa.example:443                         allow allowed_by_default mode
        b.example:443                          allow allowed_by_default mode
        x.b.example:443                        deny denied_domain egress.denied_domains[1]
        c.example:443                          deny denied_domain egress.denied_domains[2]
        c.example:443/udp                      deny denied_domain egress.denied_domains[2]
        x.c.example:443                        deny denied_domain egress.denied_domains[2]
        c.example:80                           allow allowed_by_default mode
        c.example?                             allow allowed_by_default mode
        d.example:1                            deny denied_domain egress.denied_domains[3]
        192.0.2.1:443                          deny denied_cidr egress.denied_cidrs[0]
        192.0.2.1:443/udp                      deny denied_cidr egress.denied_cidrs[0]
        [::ffff:192.0.2.1]:443                 deny denied_cidr egress.denied_cidrs[0]
        [2002:c000:201::]:443                  deny denied_cidr egress.denied_cidrs[0]
        e.example:443 = 192.0.2.1              deny denied_cidr egress.denied_cidrs[0]
        e.example:443 = 203.0.113.1 192.0.2.1  deny denied_cidr egress.denied_cidrs[0]
        [2001:db8:1::1]:443                    deny denied_cidr egress.denied_cidrs[1]
        [64:ff9b::cb00:7101]:443               deny denied_cidr egress.denied_cidrs[2]
        e.example:25                           deny denied_port egress.denied_ports[0]
        e.example:25/udp                       deny denied_port egress.denied_ports[0]
        203.0.113.1:6010                       deny denied_port egress.denied_ports[1]
        e.example:6011                         allow allowed_by_default mode
        e.example:53/udp                       deny denied_port egress.denied_ports[2]
        e.example:53                           allow allowed_by_default mode
        e.example:22                           deny denied_port egress.denied_ports[3]
        e.example:22/udp                       allow allowed_by_default mode
        203.0.113.1:443 as a.example           deny denied_domain egress.denied_domains[0]
        203.0.113.1:443 as x.a.example         deny denied_domain egress.denied_domains[0]
        203.0.113.1:443 as e.example           allow allowed_by_default mode
        """,
    ),
    "every port denied": (
        "{mode: allow-all, egress: {denied_ports: [1-65535]}}",
        """
        a.example:443                          deny denied_port egress.denied_ports[0]
        a.example:1/udp                        deny denied_port egress.denied_ports[0]
        a.example?                             deny denied_port egress.denied_ports[0]
        """,
    ),
    "a denied range of a whole version": (
        "{mode: allow-all, egress: {denied_cidrs: [0.0.0.0/0]}}",
        """
        192.0.2.1:443                          deny denied_cidr egress.denied_cidrs[0]
        [::ffff:192.0.2.1]:443                 deny denied_cidr egress.denied_cidrs[0]
        [64:ff9b::c000:201]:443                deny denied_cidr egress.denied_cidrs[0]
        [2001:db8::1]:443                      allow allowed_by_default mode
        """,
    ),
    "the first rule that matches wins, before the lists": (
        """
        mode: block-all
        egress: {allowed_domains: [.a.example]}
        rules:
        - {action: deny, domains: [x.a.example]}
        - {action: allow, domains: [x.a.example, y.example], ports: [22]}
        - {action: deny, ports: [443], cidrs: [192.0.2.0/25]}
        - {action: allow, cidrs: [192.0.2.0/24]}
        - {action: deny, domains: [y.example]}
        """,
        """
        a.example:443                          allow allowed_domain egress.allowed_domains[0]
        x.a.example:443                        deny denied_by_rule rules[0]
        x.a.example:22                         deny denied_by_rule rules[0]
        z.x.a.example:443                      deny denied_by_rule rules[0]
        x.a.example?                           deny denied_by_rule rules[0]
        xx.a.example:443                       allow allowed_domain egress.allowed_domains[0]
        y.example:22                           allow allowed_by_rule rules[1]
        y.example:443                          deny denied_by_rule rules[4]
        y.example?                             allow allowed_by_rule rules[1]
        z.y.example:22                         deny denied_by_rule rules[4]
        192.0.2.1:443                          deny denied_by_rule rules[2]
        192.0.2.1:80                           allow allowed_by_rule rules[3]
        192.0.2.200:443                        allow allowed_by_rule rules[3]
        a.example:443 = 192.0.2.1              deny denied_by_rule rules[2]
        a.example:443 = 192.0.2.200 192.0.2.1  deny denied_by_rule rules[2]
        a.example:443 = 192.0.2.200            allow allowed_domain egress.allowed_domains[0]
        b.example:80 = 192.0.2.200             deny not_allowed_domain mode
        """,
    ),
    "an allow rule ends the search": (
        """
        mode: allow-all
        egress: {denied_domains: [a.example], denied_ports: [443], denied_cidrs: [192.0.2.0/24]}
        rules: [{action: allow, domains: [a.example]}]
        """,
        """
        a.example:443 = 192.0.2.1              allow allowed_by_rule rules[0]
        a.example:22                           deny denied_domain egress.denied_domains[0]
        x.a.example:443                        deny denied_domain egress.denied_domains[0]
        b.example:443                          deny denied_port egress.denied_ports[0]
        """,
    ),
    "domains and cidrs of a rule are alternatives, its ports and protocol bound both": (
        """
        mode: allow-all
        rules:
        - {action: deny, domains: [a.example], cidrs: [192.0.2.0/24], ports: [22, 53/udp]}
        - {action: deny, domains: [b.example], protocol: udp}
        - {action: deny, protocol: udp, ports: [9]}
        """,
        """
        a.example:22                           deny denied_by_rule rules[0]
        a.example:22/udp                       deny denied_by_rule rules[0]
        a.example:53/udp                       deny denied_by_rule rules[0]
        a.example:53                           allow allowed_by_default mode
        a.example:443                          allow allowed_by_default mode
        a.example?                             allow allowed_by_default mode
        192.0.2.1:22                           deny denied_by_rule rules[0]
        192.0.2.1:443                          allow allowed_by_default mode
        b.example:443/udp                      deny denied_by_rule rules[1]
        b.example:443                          allow allowed_by_default mode
        b.example?                             allow allowed_by_default mode
        c.example:9/udp                        deny denied_by_rule rules[2]
        c.example:9                            allow allowed_by_default mode
        """,
    ),
    "what an allow rule grants without ports": (
        """
        mode: block-all
        rules:
        - {action: allow, domains: [a.example, "b.example:22"], cidrs: [192.0.2.0/24]}
        - {action: allow, domains: [c.example], protocol: tcp}
        """,
        """
        a.example:443                          allow allowed_by_rule rules[0]
        a.example:80                           allow allowed_by_rule rules[0]
        a.example:22                           deny port_not_allowed rules[0]
        x.a.example:443                        deny not_allowed_domain mode
        b.example:22                           allow allowed_by_rule rules[0]
        b.example:443                          deny port_not_allowed rules[0]
        192.0.2.1:9                            allow allowed_by_rule rules[0]
        192.0.2.1:9/udp                        deny udp_blocked mode
        c.example:443                          allow allowed_by_rule rules[1]
        c.example:8443                         deny port_not_allowed rules[1]
        """,
    ),
    "a rule that names no destination opens the public internet only": (
        "{mode: block-all, rules: [{action: allow, ports: [443]}]}",
        """
        a.example:443                          allow allowed_by_rule rules[0]
        a.example?                             allow allowed_by_rule rules[0]
        a.example:80                           deny not_allowed_domain mode
        192.0.2.1:443                          allow allowed_by_rule rules[0]
        10.0.0.1:443                           deny reserved_address allow_private
        a.example:443 = 10.0.0.1               deny reserved_address allow_private
        a.internal:443                         deny reserved_name mode
        127.0.0.1:443                          deny reserved_address -
        198.51.100.7:443                       deny reserved_address -
        host.belljar.internal:443              deny host_port_not_allowed host_ports
        a.example:443/udp                      deny udp_blocked mode
        """,
    ),
    "an allow rule for UDP": (
        """
        mode: allow-all
        egress: {denied_ports: [1-65535]}
        rules:
        - {action: allow, domains: [a.example], ports: [123/udp]}
        - {action: allow, cidrs: [192.0.2.0/24], protocol: udp}
        """,
        """
        a.example:123/udp                      allow allowed_by_rule rules[0]
        a.example:123                          deny denied_port egress.denied_ports[0]
        a.example?                             allow allowed_by_rule rules[0]
        192.0.2.1:9/udp                        allow allowed_by_rule rules[1]
        192.0.2.1:9                            deny denied_port egress.denied_ports[0]
        """,
    ),
    "a rule opens private addresses for its own ports and no others": (
        "{mode: allow-all, rules: [{action: allow, cidrs: [10.0.0.5], ports: [5432]}]}",
        """
        10.0.0.5:5432                          allow allowed_by_rule rules[0]
        10.0.0.5:22                            deny reserved_address allow_private
        10.0.0.5:5432/udp                      deny reserved_address allow_private
        10.0.0.6:5432                          deny reserved_address allow_private
        [::ffff:10.0.0.5]:22                   deny reserved_address allow_private
        evil.example:22 = 10.0.0.5             deny reserved_address allow_private
        evil.example:5432 = 10.0.0.6           deny reserved_address allow_private
        a.example:5432 = 10.0.0.5              allow allowed_by_default mode
        """,
    ),
    "the same in block-all": (
        """
        mode: block-all
        egress: {allowed_domains: ["*.a.example", "db.example:5432"]}
        rules: [{action: allow, cidrs: [10.0.0.5], ports: [5432]}]
        """,
        """
        10.0.0.5:5432                          allow allowed_by_rule rules[0]
        10.0.0.5:443                           deny port_not_allowed rules[0]
        rebound.a.example:443 = 10.0.0.5       deny reserved_address allow_private
        db.example:5432 = 10.0.0.5             allow allowed_domain egress.allowed_domains[1]
        """,
    ),
    "services of the host": (
        """
        mode: block-all
        egress:
          allowed_domains: [host.belljar.internal, host.docker.internal, .docker.internal]
          allowed_cidrs: [0.0.0.0/0]
        rules: [{action: deny, ports: [6000]}, {action: allow, domains: [host.belljar.internal], ports: [22]}]
        host_ports: [5432, 6000-6001]
        """,
        """
        host.belljar.internal:5432             allow allowed_host_port host_ports
        host.docker.internal:5432              allow allowed_host_port host_ports
        HOST.docker.internal.:5432             allow allowed_host_port host_ports
        host.belljar.internal?                 allow allowed_host_port host_ports
        host.belljar.internal:5432 = 127.0.0.1 allow allowed_host_port host_ports
        host.belljar.internal:5432 = 198.51.100.7  allow allowed_host_port host_ports
        host.belljar.internal:443              deny host_port_not_allowed host_ports
        host.belljar.internal:22               deny host_port_not_allowed host_ports
        host.belljar.internal:6000             deny denied_by_rule rules[0]
        host.belljar.internal:6001             allow allowed_host_port host_ports
        host.belljar.internal:5432/udp         deny udp_blocked mode
        x.host.belljar.internal:5432           deny service_not_allowed services
        host.belljar.internal:5432 as a.example  deny name_mismatch -
        198.51.100.7:5432                      deny reserved_address -
        198.51.100.7:5432 as host.belljar.internal  deny reserved_address -
        127.0.0.1:5432                         deny reserved_address -
        """,
    ),
    "services of the host in allow-all": (
        "{mode: allow-all, egress: {denied_domains: ['host.docker.internal:5432']}, host_ports: [5432]}",
        """
        host.belljar.internal:5432             allow allowed_host_port host_ports
        host.docker.internal:5432              deny denied_domain egress.denied_domains[0]
        host.belljar.internal:5432/udp         deny host_port_not_allowed host_ports
        host.belljar.internal:80               deny host_port_not_allowed host_ports
        """,
    ),
    "named services": (
        """
        mode: block-all
        egress:
          allowed_domains: ["*.belljar.internal", "other.belljar.internal:22"]
          allowed_ports: [1-65535]
          allowed_cidrs: [0.0.0.0/0]
        rules:
        - {action: deny, cidrs: [203.0.113.0/24]}
        - {action: deny, domains: [denied.belljar.internal]}
        - {action: allow, domains: [web.belljar.internal], ports: [22]}
        - {action: deny, ports: [6000]}
        services:
          web: {port: 8080, at: 80}
          tool: {socket: /run/tool.sock}
          db: {address: "db.corp.example:5432"}
          x: {port: 6000}
          denied: {port: 80}
          anthropic: {}
        """,
        """
        web.belljar.internal:80                allow allowed_service services.web
        WEB.belljar.internal.:80               allow allowed_service services.web
        web.belljar.internal?                  allow allowed_service services.web
        web.belljar.internal:80 as web.belljar.internal  allow allowed_service services.web
        web.belljar.internal:80 as tool.belljar.internal  deny name_mismatch -
        web.belljar.internal:8080              deny service_not_allowed services.web
        web.belljar.internal:22                deny service_not_allowed services.web
        web.belljar.internal:80/udp            deny udp_blocked mode
        tool.belljar.internal:80               allow allowed_service services.tool
        tool.belljar.internal:443              deny service_not_allowed services.tool
        anthropic.belljar.internal:80          allow allowed_service services.anthropic
        anthropic.belljar.internal:443         deny service_not_allowed services.anthropic
        db.belljar.internal:5432               allow allowed_service services.db
        db.belljar.internal:5432 = 192.0.2.1   allow allowed_service services.db
        db.belljar.internal:5432 = 10.0.0.1    allow allowed_service services.db
        db.belljar.internal:5432 = 127.0.0.1   deny reserved_address -
        db.belljar.internal:5432 = 10.0.0.1 169.254.169.254  deny reserved_address -
        db.belljar.internal:5432 = 10.9.9.9    deny reserved_address -
        db.belljar.internal:5432 = 203.0.113.1 deny denied_by_rule rules[0]
        denied.belljar.internal:80             deny denied_by_rule rules[1]
        denied.belljar.internal?               deny denied_by_rule rules[1]
        x.belljar.internal:6000                deny denied_by_rule rules[3]
        y.belljar.internal:80                  deny service_not_allowed services
        y.belljar.internal?                    deny service_not_allowed services
        y.web.belljar.internal:80              deny service_not_allowed services
        other.belljar.internal:22              deny service_not_allowed services
        belljar.internal:80                    deny service_not_allowed services
        xbelljar.internal:80                   deny not_allowed_domain mode
        db.corp.example:5432                   deny not_allowed_domain mode
        host.belljar.internal:80               deny host_port_not_allowed host_ports
        10.9.9.9:80 as web.belljar.internal    deny reserved_address -
        """,
    ),
    "named services in allow-all": (
        """
        mode: allow-all
        egress: {denied_domains: ["db.belljar.internal:22"], denied_ports: [9]}
        rules: [{action: allow, domains: [y.belljar.internal]}]
        services: {web: {port: 8080, at: 80}, db: {address: "10.0.0.1:22"}, x: {port: 9}}
        """,
        """
        web.belljar.internal:80                allow allowed_service services.web
        web.belljar.internal:80/udp            deny service_not_allowed services.web
        web.belljar.internal:8080              deny service_not_allowed services.web
        db.belljar.internal:22                 deny denied_domain egress.denied_domains[0]
        x.belljar.internal:9                   deny denied_port egress.denied_ports[0]
        y.belljar.internal:443                 deny service_not_allowed services
        belljar.internal?                      deny service_not_allowed services
        10.0.0.1:22                            deny reserved_address allow_private
        """,
    ),
    "presets": (
        """
        mode: block-all
        egress: {allowed_ports: [22]}
        presets: [anthropic, python: registry.corp.example, node: "*.corp.example:8443"]
        """,
        """
        api.anthropic.com:443                  allow allowed_domain presets[0]
        api.anthropic.com:22                   deny port_not_allowed presets[0]
        api.anthropic.com:80                   deny port_not_allowed presets[0]
        x.api.anthropic.com:443                deny not_allowed_domain mode
        registry.corp.example:443              allow allowed_domain presets[1]
        registry.corp.example:80               allow allowed_domain presets[1]
        npm.corp.example:8443                  allow allowed_domain presets[2]
        npm.corp.example:443                   deny port_not_allowed presets[2]
        """,
    ),
    "of several entries that fit, the nearest is named": (
        "{mode: block-all, egress: {allowed_domains: ['*.example.org', .a.example.org, a.example.org]}}",
        """
        a.example.org:443                      allow allowed_domain egress.allowed_domains[1]
        b.a.example.org:443                    allow allowed_domain egress.allowed_domains[1]
        b.example.org:443                      allow allowed_domain egress.allowed_domains[0]
        """,
    ),
}


def cases() -> Iterator[ParameterSet]:
    for title, (policy, table) in TABLES.items():
        for line in table.strip().splitlines():
            asked, *outcome_words = re.split(r" +(?=(?:allow|deny) )", line.strip())
            [wanted] = outcome_words
            yield pytest.param(policy, asked, wanted, id=f"{title}: {asked}")


def document(text: str) -> str:
    """Take the indentation off a document that was written inside a table."""
    return textwrap.dedent(text)


@pytest.mark.parametrize(("policy", "asked", "wanted"), list(cases()))
def test_tables(policy, asked, wanted):
    verdict = compiled(document(policy), host_addresses=HOST).decide(flow(asked))
    assert outcome(verdict) == wanted
    assert verdict.allowed is wanted.startswith("allow ")
    assert verdict.flow == flow(asked)
    assert verdict.sentence.isprintable()
    assert "{" not in verdict.sentence
    assert verdict.sentence.startswith(str(flow(asked))) or verdict.reason is Reason.PORT_NOT_ALLOWED


@pytest.mark.parametrize(
    "asked", ["a.example:443", "192.0.2.1:53/udp", "a.example?", "localhost:1", "host.belljar.internal:1"]
)
def test_without_a_policy_everything_is_denied(asked):
    assert outcome(without_policy(flow(asked))) == "deny policy_missing -"


DECIDED_ELSEWHERE = {"policy_missing", "protocol_refused"}


def test_every_reason_is_in_the_tables():
    seen = {str(case.values[2]).split()[1] for case in cases()}
    assert seen == set(Reason) - DECIDED_ELSEWHERE


def test_every_reason_has_a_sentence():
    assert set(SENTENCES) == set(Reason)


def test_the_sentence_names_what_was_asked_for_and_what_decided():
    policy = compiled("{mode: block-all, egress: {allowed_domains: [a.example], allowed_cidrs: ['2001:db8::/32']}}")
    assert policy.decide(flow("a.example:22")).sentence == (
        "egress.allowed_domains[0] grants the destination of a.example:22, but not this port."
    )
    assert policy.decide(flow("[2001:db8::1]:22")).sentence == "[2001:db8::1]:22 is allowed by egress.allowed_cidrs[0]."
    assert policy.decide(flow("a.example:9/udp")).sentence.startswith("a.example:9/udp is UDP")
    assert "10.0.0.1" in policy.decide(flow("a.example:443 = 192.0.2.1 10.0.0.1")).sentence
    assert "evil.example" in policy.decide(flow("a.example:443 as evil.example")).sentence


def test_the_sentence_shows_the_address_that_is_wrapped_in_another():
    policy = compiled("{mode: allow-all}")
    assert "leads to 127.0.0.1, which is loopback" in policy.decide(flow("[64:ff9b::7f00:1]:80")).sentence
    assert "leads to 10.0.0.1, a private address" in policy.decide(flow("[2002:a00:1::]:80")).sentence


@pytest.mark.parametrize(
    ("text", "opener"),
    [
        ("{mode: block-all, rules: [{action: allow, ports: [443]}]}", "its range in allowed_cidrs opens it"),
        ("{mode: allow-all}", "an allow rule with its range opens it"),
    ],
)
def test_the_remedy_for_a_private_address_works_in_the_mode(text, opener):
    assert opener in compiled(text).decide(flow("10.0.0.1:443")).sentence


@pytest.mark.parametrize("mode", ["block-all", "allow-all"])
def test_a_flow_to_nowhere_is_denied(mode):
    """Neither name nor address: nothing that could be checked, so nothing that may pass."""
    policy = compiled(f"{{mode: {mode}, rules: [{{action: allow, ports: [443]}}]}}")
    assert not policy.decide(Flow(None, 443)).allowed
    assert not policy.decide(Flow(None, None, None)).allowed
    assert not policy.decide(Flow(None, 443, claimed="a.example")).allowed


@pytest.mark.parametrize(
    ("mode", "written", "reaches_out"),
    [
        ("block-all", "{}", False),
        ("block-all", "{server_tools: refuse}", False),
        ("block-all", "{server_tools: allow}", True),
        ("allow-all", "{}", True),
        ("allow-all", "{server_tools: refuse}", True),
    ],
)
def test_a_provider_may_reach_for_the_network_where_the_sandbox_may(mode, written, reaches_out):
    policy = compiled(f"{{mode: {mode}, services: {{anthropic: {written}, web: {{port: 80}}}}}}")
    assert policy.services["anthropic.belljar.internal"].server_tools is reaches_out
    assert not policy.services["web.belljar.internal"].server_tools


def test_what_a_flow_leads_to():
    policy = compiled("{mode: allow-all, host_ports: [5432], services: {web: {port: 8080, at: 80}}}")
    web, host = policy.service(flow("web.belljar.internal:80")), policy.service(flow("host.docker.internal:5432"))
    assert web is not None
    assert (web.kind, web.target) == (ServiceKind.HOST_PORT, "8080")
    assert host is not None
    assert (host.kind, host.target) == (ServiceKind.HOST_PORT, "5432")
    assert policy.service(flow("a.example:443")) is None
    assert policy.service(flow("192.0.2.1:443 as web.belljar.internal")) is None


@pytest.mark.parametrize("port", [0, 1, 65535])
def test_no_port_is_a_way_around_a_denial(port):
    policy = compiled("{mode: allow-all, egress: {denied_domains: [a.example], denied_cidrs: [192.0.2.0/24]}}")
    assert not policy.decide(to_name("a.example", port)).allowed
    assert not policy.decide(to_address(ip_address("192.0.2.1"), port)).allowed
    assert not policy.decide(to_name("a.example", port, Protocol.UDP)).allowed


def test_a_compiled_policy_cannot_be_changed():
    policy = compiled("mode: block-all")
    assert policy.generation == 1
    with pytest.raises(AttributeError):
        policy.mode = Mode.ALLOW_ALL  # type: ignore[misc]  # that is what is tested
    with pytest.raises(AttributeError):
        policy.policy.allow_private = True  # type: ignore[misc]  # that is what is tested


def test_blank_entries_never_become_rules_that_match_everything():
    """A list that held one blank name once compiled to a rule without a matcher: allow everything."""
    for egress in (
        "{}",
        "{allowed_domains: []}",
        "{allowed_cidrs: []}",
        "{allowed_ports: []}",
        "{allowed_ports: [443]}",
    ):
        policy = compiled(f"{{mode: block-all, egress: {egress}}}")
        for asked in ("a.example:443", "192.0.2.1:443", "a.example?"):
            assert not policy.decide(flow(asked)).allowed


def test_a_domain_and_a_cidr_are_alternatives_not_conditions():
    policy = compiled("{mode: block-all, egress: {allowed_domains: [a.example], allowed_cidrs: [192.0.2.0/24]}}")
    assert policy.decide(flow("a.example:443 = 203.0.113.1")).allowed
    assert policy.decide(flow("192.0.2.1:443")).allowed
    assert not policy.decide(flow("203.0.113.1:443")).allowed
