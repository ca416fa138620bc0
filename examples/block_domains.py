"""Allow all traffic but that to specific domains, and everything below them."""

import belljar
from belljar.client import Egress, NetworkPolicy

with belljar.Client() as client, client.claim() as sandbox:
    sandbox.update_network_policy(
        NetworkPolicy(mode="allow-all", egress=Egress(denied_domains=["facebook.com", "twitter.com"]))
    )
    print("Network policy updated: block facebook.com, twitter.com")

    for host in ("github.com", "facebook.com", "www.twitter.com"):
        result = sandbox.exec(f"curl -s -o /dev/null -w '%{{http_code}}' --max-time 10 https://{host}")
        print(f"{host}: {result.stdout}")
