"""Block all traffic. It is also what a sandbox starts with."""

import belljar
from belljar.client import NetworkPolicy

with belljar.Client() as client, client.claim(network=NetworkPolicy(mode="allow-all")) as sandbox:
    sandbox.update_network_policy(NetworkPolicy(mode="block-all"))
    print("Network policy updated: block-all")

    for host in ("github.com", "facebook.com"):
        result = sandbox.exec(f"curl -s -o /dev/null -w '%{{http_code}}' --max-time 10 https://{host}")
        print(f"{host}: {result.stdout}")
