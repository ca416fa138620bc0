"""The map of the universe: addresses and ports that tests speak of. Where the self-test has the same, they are its."""

from belljar.verify.probes import places

GATEWAY, GATEWAY_V6 = places.HOST[4], places.HOST[6]
ROUTER, ROUTER_V6 = places.ROUTER[4], places.ROUTER[6]
"""The internet's end of the wire."""

RESOLVER, RESOLVER_V6 = places.RESOLVER[4], places.RESOLVER[6]

PUBLIC = "203.0.113.10"
PUBLIC_V6 = "2001:db8::10"
OTHER_PUBLIC = "203.0.113.11"
CDN = "203.0.113.20"
"""One address, two names."""

MACHINE = "203.0.113.30"
"""Where real servers can take the stand-ins' place."""

EVIL = "203.0.113.99"
EVIL_V6 = "2001:db8::99"
PRIVATE = "10.9.0.1"
PRIVATE_V6 = "fd00:9::1"
METADATA = places.METADATA

BLACK_HOLE = "203.0.113.66"
BLACK_HOLE_V6 = "2001:db8::66"
"""Where packets vanish, and nobody answers."""

REFUSING = "203.0.113.67"
"""Where every connection is refused."""

ECHO, DISCARD, STREAM, SSH, DNS, HTTP, HTTPS = 7, 9, 19, 22, 53, 80, 443
DATABASE = 5432
"""A port outside the web's, behind which there is an echo."""

PROXY, PROXY_WITH_PASSWORD, PROXY_FOR_NAMES = 3128, 3129, 3130
PROXY_CREDENTIALS = ("cat", "t0p s&cret/")
"""What the proxy with a password wants. The one for names refuses to connect to addresses."""

RESET, SILENT = 6000, 6001
CLOSED = 6002
