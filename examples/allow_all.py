"""Allow all traffic to the public internet."""

import belljar
from belljar.client import NetworkPolicy

with belljar.Client() as client, client.claim() as sandbox:
    sandbox.update_network_policy(NetworkPolicy(mode="allow-all"))
    print("Network policy updated: allow-all")

    for host in ("github.com", "facebook.com"):
        result = sandbox.exec(f"curl -s -o /dev/null -w '%{{http_code}}' --max-time 10 https://{host}")
        print(f"{host}: {result.stdout}")
