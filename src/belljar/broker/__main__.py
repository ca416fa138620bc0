"""`python -m belljar.broker`: a broker by hand; owners use `belljar.broker.starting`."""

from belljar.broker.process import main

main()
