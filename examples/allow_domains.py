"""Block all traffic but that to specific domains."""

import belljar
from belljar.client import Egress, NetworkPolicy

with belljar.Client() as client, client.claim() as sandbox:
    sandbox.update_network_policy(
        NetworkPolicy(mode="block-all", egress=Egress(allowed_domains=["github.com", "api.openai.com"]))
    )

    policy = sandbox.get_network_policy()
    print(f"Mode: {policy.mode}")
    print(f"Allowed domains: {', '.join(policy.egress.allowed_domains)}")

    for host in ("github.com", "api.openai.com", "facebook.com"):
        result = sandbox.exec(f"curl -s -o /dev/null -w '%{{http_code}}' --max-time 10 https://{host}")
        print(f"{host}: {result.stdout}")

    for denial in sandbox.denials():
        print(f"denied: {denial.destination} ({denial.reason})")
