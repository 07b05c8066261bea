"""The gateway: models.yaml -> `LanguageModel`.

* `schema`, `catalogue`: what the file says, and what a reference means
* `gateway`: from a reference to something that answers
* `failover`, `breaker`: groups; `limiter`: how many calls at once
* `provider_model`, `calls`, `chat_request`, `chat_stream`, `faults`, `litellm_wire`: one call, through LiteLLM
* `demo`: the model that needs nothing
* `addresses`, `model_list`, `proof`: whether a provider can be used at all

Importing this package does not import LiteLLM; `Gateway.warm_up` or the first call does. `proof` is not imported here
either: it needs an HTTP client, and a bot does not.
"""

from ishiki.gateway.breaker import BreakerState, BreakerStatus, CircuitBreaker
from ishiki.gateway.catalogue import Catalogue, ModelEntry, Reference, read_catalogue
from ishiki.gateway.demo import DEMO_REF, DemoModel
from ishiki.gateway.failover import FailoverPolicy, GroupModel, ModelGroup
from ishiki.gateway.gateway import Gateway
from ishiki.gateway.limiter import DEFAULT_MAX_CALLS, CallLimiter

__all__ = [
    "DEFAULT_MAX_CALLS",
    "DEMO_REF",
    "BreakerState",
    "BreakerStatus",
    "CallLimiter",
    "Catalogue",
    "CircuitBreaker",
    "DemoModel",
    "FailoverPolicy",
    "Gateway",
    "GroupModel",
    "ModelEntry",
    "ModelGroup",
    "Reference",
    "read_catalogue",
]
