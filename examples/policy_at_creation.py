"""Set the network policy when the sandbox is claimed: it is in force before anything runs inside."""

import belljar
from belljar.client import NetworkPolicy

with belljar.Client() as client, client.claim(hard_ttl=600, network=NetworkPolicy(mode="allow-all")) as sandbox:
    print(f"Mode: {sandbox.get_network_policy().mode}")

    result = sandbox.exec("curl -s -o /dev/null -w '%{http_code}' --max-time 10 https://github.com")
    print(f"github.com: {result.stdout}")
