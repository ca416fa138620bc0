"""See what a network policy does: ask from inside, before and after."""

import belljar
from belljar.client import NetworkPolicy

SHELL = "curl -s -o /dev/null -w '%{http_code}' --max-time 10 https://github.com"

with belljar.Client() as client, client.claim(network=NetworkPolicy(mode="allow-all")) as sandbox:
    result = sandbox.exec(SHELL)
    print(f"GitHub response before blocking: {result.stdout}")

    sandbox.update_network_policy(NetworkPolicy(mode="block-all"))

    result = sandbox.exec(SHELL)
    if result.exit_code != 0:
        print("Request blocked as expected")
    print(f"GitHub response after blocking: {result.stdout}")
