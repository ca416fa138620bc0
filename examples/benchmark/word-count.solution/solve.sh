#!/bin/sh
cat >count.py <<'END'
import re
import sys
from collections import Counter

found = re.findall(r"[^\W_']+(?:'+[^\W_']+)*", sys.stdin.read().lower())
for word, count in sorted(Counter(found).items(), key=lambda pair: (-pair[1], pair[0])):
    print(word, count)
END
