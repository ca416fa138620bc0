#!/bin/sh
cat >tour.py <<'END'
import math
import sys
from itertools import combinations

places = [tuple(map(int, line.split())) for line in sys.stdin]


def nearest_first(start):
    """Return a tour that always goes to the nearest city that is left."""
    tour, left = [start], set(range(len(places))) - {start}
    while left:
        tour.append(min(left, key=lambda city: math.dist(places[tour[-1]], places[city])))
        left.remove(tour[-1])
    return tour


def untangled(tour):
    """Return a tour without crossings: parts are reversed as long as that makes it shorter."""
    better = True
    while better:
        better = False
        for i, j in combinations(range(len(tour)), 2):
            a, b, c, d = (places[tour[k % len(tour)]] for k in (i, i + 1, j, j + 1))
            if math.dist(a, c) + math.dist(b, d) < math.dist(a, b) + math.dist(c, d) - 1e-9:
                tour[i + 1 : j + 1] = reversed(tour[i + 1 : j + 1])
                better = True
    return tour


def length(tour):
    return sum(math.dist(places[a], places[b]) for a, b in zip(tour, tour[1:] + tour[:1]))


tours = [untangled(nearest_first(start)) for start in range(0, len(places), 4)]
print(*min(tours, key=length, default=[]), sep="\n")
END
