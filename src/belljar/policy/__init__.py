"""Policy: what a document says, and what it means for a flow. Pure: no I/O, no clock.

The way through: `read_policy` (text to Policy), `resolve` (Policy to ResolvedPolicy, which can be written down and
sent), its `compile` (to CompiledPolicy), whose `decide` says what becomes of a Flow (Verdict). `compile_policy` is the
short way, for those who enforce what they have read.
"""

from belljar.policy.addresses import AddressClass, classify
from belljar.policy.compiled import CompiledPolicy, compile_policy
from belljar.policy.decide import Verdict, without_policy
from belljar.policy.explain import Explanation, explain, parse_destination
from belljar.policy.flow import Flow, question, to_address, to_name
from belljar.policy.language.parse import Document, policy_from, read_policy
from belljar.policy.language.problems import InvalidPolicyError, Problem
from belljar.policy.language.render import render
from belljar.policy.language.syntax import Syntax, guess_syntax
from belljar.policy.model import Action, Mode, Policy, Protocol
from belljar.policy.reasons import Reason
from belljar.policy.resolved import ResolvedPolicy, resolve

__all__ = [
    "Action",
    "AddressClass",
    "CompiledPolicy",
    "Document",
    "Explanation",
    "Flow",
    "InvalidPolicyError",
    "Mode",
    "Policy",
    "Problem",
    "Protocol",
    "Reason",
    "ResolvedPolicy",
    "Syntax",
    "Verdict",
    "classify",
    "compile_policy",
    "explain",
    "guess_syntax",
    "parse_destination",
    "policy_from",
    "question",
    "read_policy",
    "render",
    "resolve",
    "to_address",
    "to_name",
    "without_policy",
]
